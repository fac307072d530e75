package file

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

// ext4Disk is a directory on a file system of its own that can be frozen.
func ext4Disk(t *testing.T) string {
	t.Helper()
	needRoot(t)
	top := t.TempDir()
	image, dir := filepath.Join(top, "image"), filepath.Join(top, "disk")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 8<<20); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"mkfs.ext4", "-q", image}, {"mount", "-o", "loop", image, dir}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			if slices.Contains(strings.Split(os.Getenv("COORD_TEST_REQUIRE"), ","), "mount") {
				t.Fatalf("%s: %v: %s", args[0], err, out)
			}
			t.Skipf("unsupported: %s: %v: %s", args[0], err, out)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir
}

// freeze stops all writes to a file system until thaw, or until the test's process
// ends, however that comes about.
func freeze(t *testing.T, dir string) (thaw func()) {
	t.Helper()
	cmd := exec.Command("sh", "-c", `fsfreeze -f "$0" && echo frozen; read x; fsfreeze -u "$0"`, dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := false
	thaw = func() {
		if done {
			return
		}
		done = true
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			t.Errorf("thaw: %v", err)
		}
	}
	t.Cleanup(thaw)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "frozen\n" {
		t.Fatalf("fsfreeze: %q, %v", line, err)
	}
	return thaw
}

// The keys are of different shards. Calls end with their context while the file system is frozen, and go on after it.
func TestFrozenFileSystem(t *testing.T) {
	t.Parallel()
	disk := ext4Disk(t)
	dir := filepath.Join(disk, "store")
	l := newBackend(t, dir)
	leaving, err := New(dir)
	if err != nil {
		t.Fatal(err)
	}
	limit, err := driver.Limit{Rate: 10, Per: time.Hour}.Normal()
	if err != nil {
		t.Fatal(err)
	}
	ask := driver.Ask{Min: 1, N: 1}
	for _, key := range []string{"renewed", "released"} {
		wantErr(t, key, second(l.TryLock(t.Context(), key, request("a", time.Hour))), nil)
	}
	wantErr(t, "other client", second(leaving.TryLock(t.Context(), "left", request("b", time.Hour))), nil)
	wantErr(t, "TakeOne", second(l.TakeOne(t.Context(), "k", limit, ask)), nil)

	thaw := freeze(t, disk)
	calls := map[string]struct {
		call    func(context.Context) error
		unknown bool
	}{
		"TryLock":                        {func(ctx context.Context) error { return second(l.TryLock(ctx, "new1", request("a", time.Hour))) }, false},
		"Renew":                          {func(ctx context.Context) error { return second(l.Renew(ctx, "renewed", request("a", 2*time.Hour))) }, true},
		"Unlock":                         {func(ctx context.Context) error { return l.Unlock(ctx, "released", "a") }, true},
		"TakeOne":                        {func(ctx context.Context) error { return second(l.TakeOne(ctx, "k", limit, ask)) }, true},
		"Unlock of a client that leaves": {func(ctx context.Context) error { return leaving.Unlock(ctx, "left", "b") }, true},
		"open":                           {func(ctx context.Context) error { return second(openStore(ctx, dir, sharedFS)) }, false},
	}
	answers := make(chan func(), len(calls))
	for name, c := range calls {
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			err := c.call(ctx)
			answers <- func() {
				wantErr(t, name, err, context.DeadlineExceeded)
				if driver.Definite(err) == c.unknown {
					t.Errorf("%s: %v, want an unknown outcome: %v", name, err, c.unknown)
				}
			}
		}()
	}
	for range calls {
		select {
		case check := <-answers:
			check()
		case <-time.After(hung):
			thaw()
			t.Fatal("calls with ten seconds to live wait for the file system")
		}
	}
	closed := make(chan error, 1)
	go func() { closed <- leaving.Close() }()
	select {
	case err := <-closed:
		wantErr(t, "Close", err, context.DeadlineExceeded)
	case <-time.After(hung):
		t.Error("Close waits for the file system")
	}

	thaw()
	wantErr(t, "Renew", second(l.Renew(t.Context(), "renewed", request("a", time.Hour))), nil)
	wantErr(t, "Unlock that took effect late", l.Unlock(t.Context(), "released", "a"), driver.ErrNotHeld)
	one, err := l.TakeOne(t.Context(), "k", limit, driver.Ask{})
	if err != nil || one.Remaining != 8 {
		t.Errorf("permits: %+v, %v, want 8 left: what was given up counts as spent", one, err)
	}
	if _, err := l.Inspect(t.Context(), "new1"); err == nil {
		t.Error("the lock whose call was certainly not applied is there")
	}
}
