package zookeeper

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

var (
	reading = driver.Share{Mode: driver.Read}
	writing = driver.Share{Mode: driver.Write}
)

func permits(weight, of int64) driver.Share {
	return driver.Share{Mode: driver.Permits, Weight: weight, Of: of}
}

// heading is s at the head of the queue.
func heading(s driver.Share) driver.Share {
	s.Head = true
	return s
}

func sharedRequest(name string, s driver.Share) driver.Request {
	r := request(name, time.Minute)
	r.Share = s
	return r
}

// take takes a shared hold that has to be granted.
func take(t testing.TB, b *backend, key string, r driver.Request) driver.Grant {
	t.Helper()
	g, err := b.Shared().TryLock(t.Context(), key, r)
	if err != nil {
		t.Fatalf("TryLock of %+v: %v", r.Share, err)
	}
	return g
}

// isRefused fails the test unless a share is refused as locked.
func isRefused(t testing.TB, b *backend, key string, s driver.Share) {
	t.Helper()
	isRefusedAs(t, b, key, sharedRequest("refused", s))
}

func isRefusedAs(t testing.TB, b *backend, key string, r driver.Request) {
	t.Helper()
	if _, err := b.Shared().TryLock(t.Context(), key, r); !errors.Is(err, driver.ErrLocked) {
		t.Fatalf("TryLock of %+v: %v, want ErrLocked", r.Share, err)
	}
}

func release(t testing.TB, b *backend, key, id string) {
	t.Helper()
	if err := b.Shared().Unlock(t.Context(), key, id); err != nil {
		t.Fatalf("Unlock: %v", err)
	}
}

// sharers are the children of a key's guard but for its incarnation.
func sharers(t testing.TB, b *backend, key string) []string {
	t.Helper()
	names, err := b.list(b.guardPath(key), true)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return isHex(name, incarnationLen) })
}

// isEmpty waits until nobody shares a key.
func isEmpty(t testing.TB, b *backend, key string) {
	t.Helper()
	eventually(t, "nobody to share "+key, func() bool { return len(sharers(t, b, key)) == 0 })
}

// becomesFree waits until a share is granted, and gives it back.
func becomesFree(t testing.TB, b *backend, key string, s driver.Share) {
	t.Helper()
	r := sharedRequest("next", s)
	eventually(t, "a grant", func() bool {
		_, err := b.Shared().TryLock(t.Context(), key, r)
		if err != nil && !errors.Is(err, driver.ErrLocked) {
			t.Fatal(err)
		}
		return err == nil
	})
	release(t, b, key, r.ID)
}

// collectGuard removes the guard of a key that nobody shares.
func collectGuard(t testing.TB, b *backend, key string) {
	t.Helper()
	dir := b.guardPath(key)
	l, cold, err := b.isCold(t.Context(), dir, time.Now().Add(time.Hour).UnixMicro())
	if err != nil || !cold {
		t.Fatalf("guard of %s: cold %v, %v", key, cold, err)
	}
	if n, err := b.sweep(t.Context(), []litter{l}); n != 1 || err != nil {
		t.Fatalf("%d removed, %v", n, err)
	}
	if ok, _, err := b.conn.Exists(dir); ok || err != nil {
		t.Fatalf("guard is there: %v, %v", ok, err)
	}
}

// endSession ends the session of a client, and so all that it has.
func endSession(b *backend) { b.conn.Close() }
