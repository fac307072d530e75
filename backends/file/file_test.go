package file

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
)

// shardDir is where a cell is.
func shardDir(dir string, n cas.Name) string {
	return filepath.Join(dir, "cells", fmt.Sprintf("%02x", shardOf(fileName(n))))
}

func TestOpenRefusals(t *testing.T) {
	dir := t.TempDir()
	write := func(path, content string) string {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	aFile := write("file", "")
	for name, tc := range map[string]struct {
		url  string
		want error
		say  string
	}{
		"unknown parameter": {"file://" + dir + "/new?mode=0700", driver.ErrInvalid, "a parameter"},
		"a host":            {"file://server/share", driver.ErrInvalid, "three slashes"},
		"no slash":          {"file:coord", driver.ErrInvalid, "absolute"},
		"a user":            {"file://me:secret@localhost" + dir + "/new", driver.ErrInvalid, "no user"},
		"a fragment":        {"file://" + dir + "/new#1", driver.ErrInvalid, "no fragment"},
		"no path":           {"file://", driver.ErrInvalid, "absolute path"},
		"a file":            {"file://" + aFile, driver.ErrInvalid, "want a directory"},
		"below a file":      {"file://" + aFile + "/coord", driver.ErrInvalid, "want a directory"},
		"in use by others":  {"file://" + filepath.Dir(write("home/letter.txt", "")), driver.ErrInvalid, `"letter.txt"`},
		"another format":    {"file://" + filepath.Dir(write("next/FORMAT", "coord-file 2\n")), driver.ErrCorrupt, "coord-file 2"},
	} {
		u, err := url.Parse(tc.url)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Open(t.Context(), u)
		if err == nil {
			err = b.Close()
		}
		wantErr(t, name, err, tc.want)
		if err != nil && (!strings.Contains(err.Error(), tc.say) || strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: message %q, want one line that says %s", name, err, tc.say)
		}
	}
	if _, err := New("relative"); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("relative path: %v, want ErrInvalid", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); !os.IsNotExist(err) {
		t.Errorf("a refused URL left a directory: %v", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, "ended context", second(Open(ctx, &url.URL{Scheme: "file", Path: dir + "/new"})), context.Canceled)
}

func TestSharedFilesystemIsRefused(t *testing.T) {
	_, err := openStore(t.Context(), t.TempDir(), func(string) (string, error) { return "NFS", nil })
	wantErr(t, "NFS", err, driver.ErrUnsupported)
	if err == nil || !strings.Contains(err.Error(), "NFS") {
		t.Errorf("message %q, want it to name NFS", err)
	}
	broken := errors.New("broken")
	wantErr(t, "unknown", second(openStore(t.Context(), t.TempDir(), func(string) (string, error) { return "", broken })), broken)
}

func TestDirectoryIsMadeForItsOwner(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	newBackend(t, dir)
	for _, d := range []string{dir, filepath.Dir(dir)} {
		st, err := os.Stat(d)
		if err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v, want 0700", d, st.Mode(), err)
		}
	}
}

func TestFreshVolume(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	newBackend(t, dir)
}

// Many clients open a new store at once.
func TestOpenTogether(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			b, err := New(dir)
			if err == nil {
				err = b.Close()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			t.Errorf("%s is left", e.Name())
		}
	}
}

func TestTwoClientsShareAStore(t *testing.T) {
	dir := t.TempDir()
	a, b := newBackend(t, dir), newBackend(t, dir)
	ctx := t.Context()
	first, err := a.TryLock(ctx, "k", request("a", time.Hour))
	wantErr(t, "TryLock", err, nil)
	wantErr(t, "TryLock of the other client", second(b.TryLock(ctx, "k", request("b", time.Hour))), driver.ErrLocked)
	h, err := b.Inspect(ctx, "k")
	if err != nil || h.ID != "a" || int64(h.Token) != first.Token {
		t.Errorf("Inspect: %+v, %v", h, err)
	}
	wantErr(t, "Close", a.Close(), nil)
	wantErr(t, "TryLock after Close", second(a.TryLock(ctx, "k", request("a", time.Hour))), driver.ErrClosed)

	// The hold outlives the client, as it outlives a process.
	c := newBackend(t, dir)
	again, err := c.TryLock(ctx, "k", request("a", time.Hour))
	if err != nil || again.Token != first.Token {
		t.Errorf("after reopening: %+v, %v, want token %d", again, err, first.Token)
	}
	wantErr(t, "Unlock", c.Unlock(ctx, "k", "a"), nil)
	next, err := b.TryLock(ctx, "k", request("b", time.Hour))
	if err != nil || next.Token <= first.Token {
		t.Errorf("next: %+v, %v, want a token above %d", next, err, first.Token)
	}
}

func TestLeaseLapses(t *testing.T) {
	b := newBackend(t, t.TempDir())
	ctx := t.Context()
	_, err := b.TryLock(ctx, "k", request("a", 30*time.Millisecond))
	wantErr(t, "TryLock", err, nil)
	start := time.Now()
	for {
		_, err = b.TryLock(ctx, "k", request("b", time.Hour))
		var locked *driver.LockedError
		if !errors.As(err, &locked) {
			break
		}
		if locked.Remaining <= 0 || locked.Remaining > 30*time.Millisecond {
			t.Fatalf("remaining %v of 30ms", locked.Remaining)
		}
		time.Sleep(locked.Remaining) // what the store says is what is waited for
	}
	wantErr(t, "TryLock after the lapse", err, nil)
	if took := time.Since(start); took > hung {
		t.Errorf("the lease lasted %v", took)
	}
	wantErr(t, "Renew", second(b.Renew(ctx, "k", request("a", time.Hour))), driver.ErrNotHeld)
	wantErr(t, "Unlock", b.Unlock(ctx, "k", "a"), driver.ErrNotHeld)
}

// What only reads makes nothing, and finds a cell whose guard was removed.
func TestReadsMakeNothing(t *testing.T) {
	dir := t.TempDir()
	b := newBackend(t, dir)
	ctx := t.Context()
	limit, err := driver.Limit{Rate: 10, Per: time.Hour}.Normal()
	if err != nil {
		t.Fatal(err)
	}
	wantErr(t, "Inspect", second(b.Inspect(ctx, "k")), driver.ErrNotHeld)
	wantErr(t, "Renew", second(b.Renew(ctx, "k", request("a", time.Hour))), driver.ErrNotHeld)
	wantErr(t, "Unlock", b.Unlock(ctx, "k", "a"), driver.ErrNotHeld)
	wantErr(t, "Reset", b.Reset(ctx, "k", limit), nil)
	one, err := b.TakeOne(ctx, "k", limit, driver.Ask{})
	if err != nil || one.Remaining != 10 {
		t.Errorf("peek: %+v, %v, want 10 remaining", one, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "cells")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("cells: %v, want none made", err)
	}

	wantErr(t, "TryLock", second(b.TryLock(ctx, "k", request("a", time.Hour))), nil)
	if err := os.Remove(filepath.Join(shardDir(dir, cas.Name{Kind: cas.Lock, Key: "k"}), "guard")); err != nil {
		t.Fatal(err)
	}
	if h, err := b.Inspect(ctx, "k"); err != nil || h.ID != "a" {
		t.Errorf("Inspect without the guard: %+v, %v, want a's hold", h, err)
	}
}

func TestForeignFileIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	b := newBackend(t, dir)
	n := cas.Name{Kind: cas.Lock, Key: "k"}
	path := filepath.Join(shardDir(dir, n), fileName(n))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("somebody else's"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := b.TryLock(t.Context(), "k", request("a", time.Hour))
	wantErr(t, "TryLock", err, driver.ErrCorrupt)
	if err != nil && !strings.Contains(err.Error(), path) {
		t.Errorf("message %q, want it to name the file", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "somebody else's" {
		t.Errorf("file: %q, %v", text, err)
	}
}

// A cell whose newer slot is of another version is not read as what it was before, and stays.
func TestCellOfAnotherVersion(t *testing.T) {
	dir := t.TempDir()
	b := newBackend(t, dir)
	wantErr(t, "TryLock", second(b.TryLock(t.Context(), "k", request("a", time.Hour))), nil)
	n := cas.Name{Kind: cas.Lock, Key: "k"}
	path := filepath.Join(shardDir(dir, n), fileName(n))
	content, err := os.ReadFile(path)
	wantErr(t, "ReadFile", err, nil)
	copy(content[len(content)/2:], "coord-cell 2 whatever it is\n")
	wantErr(t, "WriteFile", os.WriteFile(path, content, 0o600), nil)
	for what, call := range map[string]func() error{
		"TryLock": func() error { return second(b.TryLock(t.Context(), "k", request("b", time.Hour))) },
		"Renew":   func() error { return second(b.Renew(t.Context(), "k", request("a", time.Hour))) },
		"Unlock":  func() error { return b.Unlock(t.Context(), "k", "a") },
		"Inspect": func() error { return second(b.Inspect(t.Context(), "k")) },
	} {
		wantErr(t, what, call(), driver.ErrCorrupt)
	}
	if left, err := os.ReadFile(path); err != nil || string(left) != string(content) {
		t.Errorf("the cell was changed: %v", err)
	}
}

// A store that is deleted under its clients is made again, and they exclude each
// other again at once.
func TestDeletedStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	a, b := newBackend(t, dir), newBackend(t, dir)
	ctx := t.Context()
	before, err := a.TryLock(ctx, "k", request("a", time.Hour))
	wantErr(t, "TryLock", err, nil)
	wantErr(t, "TryLock of the other", second(b.TryLock(ctx, "k", request("b", time.Hour))), driver.ErrLocked)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	after, err := b.TryLock(ctx, "k", request("b", time.Hour))
	if err != nil || after.Token <= before.Token {
		t.Errorf("after the deletion: %+v, %v, want a token above %d", after, err, before.Token)
	}
	wantErr(t, "TryLock of the other", second(a.TryLock(ctx, "k", request("c", time.Hour))), driver.ErrLocked)
	wantErr(t, "Ping", a.Ping(ctx), nil)
}

func TestCloseEndsCallsThatWait(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	n := cas.Name{Kind: cas.Lock, Key: "k"}
	put(t, s, n, "v", time.Hour)
	other := newGuard(filepath.Join(shardDir(dir, n), "guard"))
	if ok, err := other.tryLock(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	waiting, err := openStore(t.Context(), dir, sharedFS)
	if err != nil {
		t.Fatal(err)
	}
	answers := make(chan error, 3)
	for range cap(answers) {
		go func() {
			answers <- waiting.Update(t.Context(), n, func([]byte, time.Time) (cas.Change, error) {
				return cas.Change{}, errors.New("got in")
			})
		}()
	}
	wantErr(t, "Close", waiting.Close(), nil)
	for range cap(answers) {
		wantErr(t, "Update", <-answers, driver.ErrClosed)
	}
	wantErr(t, "other", join(other.unlock(), other.close()), nil)
}

func TestPanicStrandsNobody(t *testing.T) {
	s := newStore(t, t.TempDir())
	n := cas.Name{Kind: cas.Lock, Key: "k"}
	put(t, s, n, "v", time.Hour)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic, want the one of the function")
			}
		}()
		_ = s.Update(t.Context(), n, func([]byte, time.Time) (cas.Change, error) { panic("test") })
	}()
	if v, ok := get(t, s, n); !ok || v != "v" {
		t.Errorf("afterwards: %q, %v, want v", v, ok)
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newStore(t, dir)
	lives := cas.Name{Kind: cas.Limit, Key: "lives", State: "tb"}
	put(t, s, lives, "v", time.Hour)
	// Keys of one shard, used once and no longer needed the next microsecond.
	const keys = 2000
	for i, n := 0, 0; n < keys; i++ {
		name := cas.Name{Kind: cas.Lock, Key: strconv.Itoa(i)}
		if shardOf(fileName(name)) == 7 {
			put(t, s, name, "v", -time.Second)
			n++
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "cells", "07", "lock,*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) > keys/2 {
		t.Errorf("%d cells left of %d that nobody needs", len(files), keys)
	}
	if v, ok := get(t, s, lives); !ok || v != "v" {
		t.Errorf("cell that is needed: %q, %v", v, ok)
	}

	// A store in which nothing new appears is cleaned as well.
	now, err := s.clock.Load().now()
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; len(files) > 0 && i < 100*shards; i++ {
		now = now.Add(tidyEvery)
		s.tidy(now.Add(-time.Hour)) // not due yet
		s.tidy(now)
		if files, err = filepath.Glob(filepath.Join(dir, "cells", "*", "lock,*")); err != nil {
			t.Fatal(err)
		}
	}
	if len(files) > 0 {
		t.Errorf("%d cells left after all shards had their turns", len(files))
	}
}

func TestSweepLeavesOthers(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	n := cas.Name{Kind: cas.Lock, Key: "k"}
	put(t, s, n, "v", time.Hour)
	put(t, s, n, "v", -time.Hour) // over a cell that is there: a new one may bring a sweep with it
	sh := &s.shards[shardOf(fileName(n))]
	for name, content := range map[string]string{"lock,foreign": "somebody else's", "lock,empty": "", "notes": "mine"} {
		if err := os.WriteFile(filepath.Join(sh.dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n := sh.sweep(time.Now()); n != 2 {
		t.Errorf("%d removed, want the expired and the empty one", n)
	}
	for _, name := range []string{"lock,foreign", "notes", "guard"} {
		if _, err := os.Stat(filepath.Join(sh.dir, name)); err != nil {
			t.Errorf("%s: %v, want it left", name, err)
		}
	}
}

// Goroutines of several clients on few keys: no update is lost.
func TestContention(t *testing.T) {
	t.Parallel()
	const clients, goroutines, rounds, keys = 4, 4, 25, 3
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range clients {
		s := newStore(t, dir)
		for range goroutines {
			wg.Go(func() {
				for n := range rounds * keys {
					name := cas.Name{Kind: cas.Limit, Key: strconv.Itoa(n % keys), State: "n"}
					err := s.Update(t.Context(), name, func(old []byte, _ time.Time) (cas.Change, error) {
						count := 0
						if old != nil {
							var err error
							if count, err = strconv.Atoi(string(old)); err != nil {
								return cas.Change{}, err
							}
						}
						return cas.Change{Write: true, Value: strconv.AppendInt(nil, int64(count+1), 10), Keep: time.Hour}, nil
					})
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	s := newStore(t, dir)
	for k := range keys {
		if v, _ := get(t, s, cas.Name{Kind: cas.Limit, Key: strconv.Itoa(k), State: "n"}); v != strconv.Itoa(clients*goroutines*rounds) {
			t.Errorf("key %d: %s, want %d", k, v, clients*goroutines*rounds)
		}
	}
}

func TestLimits(t *testing.T) {
	dir := t.TempDir()
	a, b := newBackend(t, dir), newBackend(t, dir)
	for _, text := range []string{"10/1h", "10/24h fixed-window", "10/1h burst=10"} {
		l, err := driver.ParseLimit(text)
		if err == nil {
			l, err = l.Normal()
		}
		if err != nil {
			t.Fatal(err)
		}
		granted := 0
		for i := range 20 {
			one, err := []backend{a, b}[i%2].TakeOne(t.Context(), "k", l, driver.Ask{Min: 1, N: 1})
			if err != nil {
				t.Fatal(err)
			}
			granted += one.N
		}
		if granted != 10 {
			t.Errorf("%s: granted %d of 20, want 10", text, granted)
		}
		wantErr(t, "Reset", a.Reset(t.Context(), "k", l), nil)
		one, err := b.TakeOne(t.Context(), "k", l, driver.Ask{})
		if err != nil || one.Remaining != 10 {
			t.Errorf("%s: after Reset %+v, %v, want 10 remaining", text, one, err)
		}
	}
}

// crowdOfPermits has so many clients take a permit each of one key and renew it again and again, all at the same time. None loses
// its hold.
func crowdOfPermits(t *testing.T, clients, renewals int) {
	t.Helper()
	dir := t.TempDir()
	var wg sync.WaitGroup
	for i := range clients {
		l, r := newBackend(t, dir).Shared(), request(fmt.Sprintf("a@host/1/1/%032x", i), time.Minute)
		r.Share = driver.Share{Mode: driver.Permits, Weight: 1, Of: int64(clients)}
		wg.Go(func() {
			g, err := l.TryLock(t.Context(), "k", r)
			for n := 0; err == nil && n < renewals; n++ {
				var again driver.Grant
				if again, err = l.Renew(t.Context(), "k", r); err == nil && again.Token != g.Token {
					t.Errorf("renewed as %+v, granted as %+v", again, g)
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if live, err := newBackend(t, dir).Shared().Holders(t.Context(), "k"); err != nil || len(live) != clients {
		t.Errorf("%d holders, %v, want %d", len(live), err, clients)
	}
}

func TestCrowdOfPermits(t *testing.T) { crowdOfPermits(t, 16, 20) }

func TestNightlyCrowdOfPermits(t *testing.T) { crowdOfPermits(t, cas.MaxHolders, 100) }
