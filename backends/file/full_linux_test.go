package file

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
)

// needRoot skips a test that mounts file systems where it may not.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if slices.Contains(strings.Split(os.Getenv("COORD_TEST_REQUIRE"), ","), "mount") {
		t.Fatal("not root, and COORD_TEST_REQUIRE names mount")
	}
	t.Skip("unsupported: mounts need root")
}

// smallDisk is a directory on a file system of one megabyte.
func smallDisk(t *testing.T) string {
	t.Helper()
	needRoot(t)
	return diskOf(t, "1m")
}

// diskOf is a directory on a file system of that size.
func diskOf(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func init() {
	diskFor = func(t *testing.T, f *conformance.Faults) string {
		if os.Geteuid() != 0 {
			return t.TempDir()
		}
		top := diskOf(t, "128m")
		f.Refuse = func(conformance.TB) { fill(t, top) }
		f.Accept = func(tb conformance.TB) {
			if err := os.Remove(filepath.Join(top, filling)); err != nil {
				tb.Fatalf("%v", err)
			}
		}
		return top
	}
}

// filling is the file by which a disk is full.
const filling = "filling"

// fill writes a file until the disk is full.
func fill(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, filling))
	if err != nil {
		t.Fatal(err)
	}
	page := make([]byte, os.Getpagesize())
	_, _ = rand.Read(page) // never fails
	for err == nil {
		_, err = f.Write(page)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// On a full disk what is held is renewed and released, and what has a state goes on.
func TestHoldsOnAFullDisk(t *testing.T) {
	top := smallDisk(t)
	s := newStore(t, filepath.Join(top, "store"))
	b := cas.New(driver.Info{Name: "file"}, s)
	ctx := t.Context()
	limit, err := driver.ParseLimit("100/1h")
	if err == nil {
		limit, err = limit.Normal()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"renewed", "released"} {
		wantErr(t, key, second(b.TryLock(ctx, key, request("a", time.Hour))), nil)
	}
	wantErr(t, "TakeOne", second(b.TakeOne(ctx, "k", limit, driver.Ask{Min: 1, N: 1})), nil)
	fill(t, top)
	_, err = b.TryLock(ctx, "k", request("a", time.Hour))
	wantErr(t, "TryLock of a new key", err, syscall.ENOSPC)
	wantErr(t, "TryLock of a new key", err, driver.ErrNotSent)
	if err != nil && strings.Contains(err.Error(), "\n") {
		t.Errorf("error of more than one line: %q", err)
	}

	// The mark in CLOCK is due with the next update.
	s.clock.Load().mark.Add(-2 * markEvery.Microseconds())
	for range 3 {
		wantErr(t, "Renew", second(b.Renew(ctx, "renewed", request("a", time.Hour))), nil)
		wantErr(t, "TakeOne", second(b.TakeOne(ctx, "k", limit, driver.Ask{Min: 1, N: 1})), nil)
	}
	f, err := readClock(filepath.Join(top, "store", "CLOCK"))
	if err != nil || f.mark != s.clock.Load().mark.Load() {
		t.Errorf("mark %d, %v, want %d", f.mark, err, s.clock.Load().mark.Load())
	}
	// Even without CLOCK, for which there is no room.
	if err := os.Remove(filepath.Join(top, "store", "CLOCK")); err != nil {
		t.Fatal(err)
	}
	fill(t, top)
	s.clock.Load().mark.Add(-2 * markEvery.Microseconds())
	wantErr(t, "Unlock", b.Unlock(ctx, "released", "a"), nil)
	wantErr(t, "TryLock of a key that is free", second(b.TryLock(ctx, "released", request("b", time.Hour))), nil)
}

func init() { roles["starve"] = starveRole }

// starveRole holds a lock and opens files until there are no descriptors left. That is no loss: what the store cannot be asked
// was not sent, and the hold is there when there are descriptors again.
func starveRole(dir string) error {
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 200, Max: 200}); err != nil {
		return err
	}
	b, err := New(dir)
	if err != nil {
		return err
	}
	ctx, held := context.Background(), request("a", time.Hour)
	_, err = b.TryLock(ctx, "k", held)
	var hoard []*os.File
	for err == nil {
		var f *os.File
		if f, err = os.Open(os.DevNull); err == nil {
			hoard = append(hoard, f)
		}
	}
	if !errors.Is(err, syscall.EMFILE) {
		return err
	}
	for what, err := range map[string]error{
		"Renew":   second(b.Renew(ctx, "k", held)),
		"Unlock":  b.Unlock(ctx, "k", held.ID),
		"TryLock": second(b.TryLock(ctx, "k", request("b", time.Hour))),
	} {
		if !errors.Is(err, driver.ErrNotSent) || !errors.Is(err, syscall.EMFILE) {
			return fmt.Errorf("%s without descriptors: %v", what, err)
		}
	}
	for _, f := range hoard {
		_ = f.Close()
	}
	return errors.Join(second(b.Renew(ctx, "k", held)), b.Unlock(ctx, "k", held.ID), b.Close())
}

func TestOutOfDescriptors(t *testing.T) {
	t.Parallel()
	if rest, err := start(t, "starve", t.TempDir()).wait(); err != nil {
		t.Errorf("%v: %s", err, rest)
	}
}
