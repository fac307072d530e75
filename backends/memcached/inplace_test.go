package memcached

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// fillUp takes all places for items of the size of the one that is there.
func fillUp(t *testing.T, srv *testserver.Server, key string) {
	t.Helper()
	client := newClient(srv.Addr)
	defer client.Close()
	item := must[*memcache.Item](t)(client.Get(key))
	const batch = 256
	for i := 0; ; i += batch {
		var adds []string
		for n := range batch {
			adds = append(adds, fmt.Sprintf("add %s %d 0 %d\r\n%s", filler(key, i+n), item.Flags, len(item.Value), item.Value))
		}
		for _, reply := range pipeline(t, srv.Addr, adds) {
			switch {
			case strings.Contains(reply, "out of memory"):
				return
			case reply != "STORED" && reply != "NOT_STORED":
				t.Fatal(reply)
			}
		}
	}
}

func filler(key string, i int) string { return fmt.Sprintf("%0*d", len(key), i) }

// secondsLeft is how many seconds the lock's item still has.
func secondsLeft(t *testing.T, srv *testserver.Server, key string) int {
	t.Helper()
	line := srv.Text("mg " + nameOf(key).key(lockKind) + " t")[0]
	seconds, _, _ := strings.Cut(strings.TrimPrefix(line, "HD t"), " ")
	n, err := strconv.Atoi(seconds)
	if err != nil {
		t.Fatalf("%s: %q", key, line)
	}
	return n
}

// On a full server nothing new is granted, and what is held is renewed and given up: both change the item in
// place.
func TestFullServerKeepsItsLocks(t *testing.T) {
	t.Parallel()
	srv := testserver.Memcached(t, testserver.WithFlags("-m", "2", "-M"))
	b := must[*backend](t)(openURL(t, "memcached://"+srv.Addr))
	ctx, r := t.Context(), request("a", time.Hour)
	const locks = 50
	var keys []string
	tokens := map[string]int64{}
	for i := range locks {
		keys = append(keys, fmt.Sprintf("full %06d", i))
		tokens[keys[i]] = must[driver.Grant](t)(b.TryLock(ctx, keys[i], r)).Token
	}
	fillUp(t, srv, nameOf(keys[0]).key(lockKind))
	for _, room := range []string{"for no item", "for one item"} { // a lock takes two of its size
		if _, err := b.TryLock(ctx, "full other", r); !errors.Is(err, driver.ErrNotSent) {
			t.Errorf("TryLock with room %s: %v, want ErrNotSent", room, err)
		}
		if _, err := b.Inspect(ctx, "full other"); !errors.Is(err, driver.ErrNotHeld) {
			t.Errorf("a refused TryLock has left something: %v", err)
		}
		srv.Text("delete " + filler(nameOf(keys[0]).key(lockKind), 0))
	}
	fillUp(t, srv, nameOf(keys[0]).key(lockKind))
	// The lease of the first is as good as over.
	srv.Text("touch " + nameOf(keys[0]).key(lockKind) + " 60")
	for _, key := range keys {
		again, err := b.Renew(ctx, key, r)
		if err != nil {
			t.Fatalf("Renew of %s: %v", key, err)
		}
		if again.Token != tokens[key] {
			t.Errorf("token %d after %d", again.Token, tokens[key])
		}
		if again.TTL != time.Hour || time.Since(again.Since) > hung {
			t.Errorf("renewed as %+v", again)
		}
	}
	if n := secondsLeft(t, srv, keys[0]); n < 3600-int(hung/time.Second) {
		t.Errorf("renewed for an hour, expires in %d s", n)
	}
	if h := must[driver.Holder](t)(b.Inspect(ctx, keys[0])); h.ID != r.ID || h.Released {
		t.Errorf("the lock is now %+v", h)
	}
	if _, err := b.Renew(ctx, keys[0], request("b", time.Hour)); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Renew by another: %v", err)
	}
	longer := driver.Request{ID: r.ID, TTL: 2 * time.Hour} // its value would change
	if _, err := b.Renew(ctx, keys[0], longer); !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("Renew with a longer TTL: %v, want ErrNotSent", err)
	}
	for _, key := range keys {
		if err := b.Unlock(ctx, key, r.ID); err != nil {
			t.Fatalf("Unlock of %s: %v", key, err)
		}
		if err := b.Unlock(ctx, key, r.ID); !errors.Is(err, driver.ErrNotHeld) {
			t.Errorf("Unlock again: %v", err)
		}
	}
	must[driver.Grant](t)(b.TryLock(ctx, keys[0], request("b", time.Hour)))
}

// A full server takes no item that shows how it works. It is opened all the same: what it has can be
// inspected, renewed and unlocked.
func TestFullServerIsOpened(t *testing.T) {
	t.Parallel()
	srv := testserver.Memcached(t, testserver.WithFlags("-m", "2", "-M"))
	url, r := "memcached://"+srv.Addr, request("a", time.Hour)
	must[driver.Grant](t)(must[*backend](t)(openURL(t, url)).TryLock(t.Context(), "k", r))
	srv.Text("delete " + listKey)
	fillUp(t, srv, nameOf("k").key(lockKind))
	for _, item := range []memcache.Item{probeItem(), {Key: listKey, Value: []byte(formatList([]string{srv.Addr}))}} {
		data := fmt.Sprintf(" 0 60 %d\r\n%s", len(item.Value), item.Value)
		srv.Text("set " + item.Key + data)
		fillUp(t, srv, item.Key)
		srv.Text("delete "+item.Key, "add "+strings.Repeat("x", len(item.Key))+data)
	}
	b := must[*backend](t)(openURL(t, url))
	if info := b.Info(); !strings.HasPrefix(info.Server, "memcached 1.") {
		t.Errorf("%+v", info)
	}
	if h := must[driver.Holder](t)(b.Inspect(t.Context(), "k")); h.ID != r.ID {
		t.Errorf("held by %+v", h)
	}
	must[driver.Grant](t)(b.Renew(t.Context(), "k", r))
	if _, err := b.TryLock(t.Context(), "other", r); !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("TryLock: %v, want ErrNotSent", err)
	}
	if err := b.Unlock(t.Context(), "k", r.ID); err != nil {
		t.Error(err)
	}
}

// A change in place compares: whoever has read the lock before it changed hands changes nothing. And
// after it, whoever has read the item before swaps nothing.
func TestInPlaceCompares(t *testing.T) {
	t.Parallel()
	srv := testserver.Memcached(t, testserver.WithFlags("-M"))
	b := must[*backend](t)(openURL(t, "memcached://"+srv.Addr))
	ctx, n, refused := t.Context(), nameOf("k"), notSent(errors.New("refused"))
	first, next := request("first", time.Hour), request("next", time.Hour)
	must[driver.Grant](t)(b.TryLock(ctx, "k", first))
	renew := func(meanwhile func()) (reads int, err error) {
		_, err = run(ctx, b, n, func(c *call) (value, error) {
			return c.replaceInPlace(n, func(v value, _ time.Time) (value, int32, error) {
				if reads++; reads == 1 {
					meanwhile()
				}
				if v.id != first.ID {
					return v, 0, driver.ErrNotHeld
				}
				return v, 7200, nil
			}, refused)
		})
		return reads, err
	}
	if reads, err := renew(func() {}); err != nil || reads != 1 {
		t.Fatalf("%v after %d reads", err, reads)
	}
	if reads, err := renew(func() { must[driver.Grant](t)(b.Renew(ctx, "k", first)) }); err != nil || reads != 2 {
		t.Errorf("beside a renewal: %v after %d reads", err, reads)
	}
	// The other way round: a swap beside a change in place.
	swaps := 0
	_, err := run(ctx, b, n, func(c *call) (value, error) {
		return c.replace(n, func(v value, _ time.Time) (value, int32, error) {
			if swaps++; swaps == 1 {
				if _, err := renew(func() {}); err != nil {
					t.Error(err)
				}
			}
			return v, 3602, nil
		})
	})
	if err != nil || swaps != 2 {
		t.Errorf("a swap beside a change in place: %v after %d reads", err, swaps)
	}
	reads, err := renew(func() {
		if err := b.Unlock(ctx, "k", first.ID); err != nil {
			t.Fatal(err)
		}
		must[driver.Grant](t)(b.TryLock(ctx, "k", next))
	})
	if !errors.Is(err, driver.ErrNotHeld) || reads != 2 {
		t.Errorf("after the lock changed hands: %v after %d reads", err, reads)
	}
	if n := secondsLeft(t, srv, "k"); n > 3602 {
		t.Errorf("the next holder's item expires in %d s", n)
	}
	must[driver.Grant](t)(b.Renew(ctx, "k", next))
	if _, err := renew(func() { srv.Text("delete " + n.key(lockKind)) }); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("after the lock has gone: %v", err)
	}
	if got := srv.Text("get " + n.key(lockKind)); got[0] != "END" {
		t.Errorf("the lock was brought back: %q", got)
	}
}
