package file

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
)

// pass makes all files of the store look older by d, and removes those that were
// not written for ten days, as a cleaner of /tmp does.
func pass(t *testing.T, dir string, d time.Duration) (removed []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		st, err := e.Info()
		if err != nil {
			return err
		}
		then := st.ModTime().Add(-d)
		if time.Since(then) < 10*24*time.Hour {
			return os.Chtimes(path, then, then)
		}
		removed = append(removed, e.Name())
		return os.Remove(path)
	})
	if err != nil {
		t.Fatal(err)
	}
	return removed
}

// A long lease outlives a cleaner of old files, and so does the store.
func TestCleanerOfOldFiles(t *testing.T) {
	const age = 11 * 24 * time.Hour
	dir := filepath.Join(t.TempDir(), "store")
	b, err := New(dir)
	if err != nil {
		t.Fatal(err)
	}
	l := b
	for _, key := range []string{"new", "renewed"} {
		wantErr(t, key, second(l.TryLock(t.Context(), key, request("a", 3*age))), nil)
	}
	wantErr(t, "Renew", second(l.Renew(t.Context(), "renewed", request("a", 4*age))), nil)
	wantErr(t, "Close", b.Close(), nil) // the lease goes on
	if removed := pass(t, dir, age); len(removed) < 3 {
		t.Fatalf("the cleaner removed %v, want FORMAT and the guards among them", removed)
	}

	next := newBackend(t, dir)
	for _, key := range []string{"new", "renewed"} {
		wantErr(t, key, second(next.TryLock(t.Context(), key, request("b", time.Hour))), driver.ErrLocked)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "FORMAT")); string(text) != format {
		t.Errorf("FORMAT: %q, %v, want it written again", text, err)
	}
	// An open client survives that as well.
	pass(t, dir, age)
	wantErr(t, "Ping", next.Ping(t.Context()), nil)
	wantErr(t, "TryLock", second(next.TryLock(t.Context(), "k", request("b", time.Hour))), nil)
	wantErr(t, "another client", second(newBackend(t, dir).TryLock(t.Context(), "k", request("c", time.Hour))), driver.ErrLocked)
}

// What is used does not look old.
func TestUsedGuardIsNotOld(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	n := cas.Name{Kind: cas.Lock, Key: "k"}
	put(t, s, n, "v", time.Hour)
	pass(t, dir, 5*24*time.Hour)
	put(t, s, n, "v", time.Hour)
	guard := s.shards[shardOf(fileName(n))].guard.file.Name()
	for _, path := range []string{guard, filepath.Join(shardDir(dir, n), fileName(n))} {
		if st, err := os.Stat(path); err != nil || time.Since(st.ModTime()) > time.Hour {
			t.Errorf("%s: %v, %v, want it to look used", path, st.ModTime(), err)
		}
	}
}
