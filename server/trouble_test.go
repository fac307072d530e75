package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
)

// troubled is a store that grants at most 7.5 s, does not renew a key that begins with "stale", unlocks none that begins
// with "stuck", and shows none that begins with "hidden". It does not answer who takes permits.
type troubled struct{ driver.Backend }

func init() {
	driver.Register("troubled", func(context.Context, *url.URL) (driver.Backend, error) {
		return troubled{memory.NewStore().Open()}, nil
	})
}

const shortLease = 7500 * time.Millisecond

func (s troubled) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	r.TTL = min(r.TTL, shortLease)
	return s.Backend.TryLock(ctx, key, r)
}

func (s troubled) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if strings.HasPrefix(key, "stale") {
		return driver.Grant{}, errors.New("no answer")
	}
	r.TTL = min(r.TTL, shortLease)
	return s.Backend.Renew(ctx, key, r)
}

func (troubled) RenewAll(context.Context, []driver.Hold) []driver.Renewal { return nil }

func (s troubled) Inspect(ctx context.Context, key string) (driver.Holder, error) {
	if strings.HasPrefix(key, "hidden") {
		return driver.Holder{}, driver.ErrUnavailable
	}
	return s.Backend.Inspect(ctx, key)
}

func (s troubled) Unlock(ctx context.Context, key, id string) error {
	if strings.HasPrefix(key, "stuck") {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Backend.Unlock(ctx, key, id)
}

func (troubled) TakeOne(ctx context.Context, _ string, _ driver.Limit, _ driver.Ask) (driver.TakenOne, error) {
	<-ctx.Done()
	return driver.TakenOne{}, ctx.Err()
}

func (troubled) Take(ctx context.Context, _ string, _ driver.Limit, _ []driver.Ask) (driver.Taken, error) {
	<-ctx.Done()
	return driver.Taken{}, ctx.Err()
}

func (troubled) TakeAll(ctx context.Context, _ []driver.Demand) ([]driver.Taken, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Who takes permits of a store that does not answer is told so, in time.
func TestTakeBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "url: troubled://\nlimits: {supplier: 3/1s}")
		for body, most := range map[string]time.Duration{`{"key":"supplier"}`: callTime, `{"key":"supplier","at_most":true}`: callTime, `{"key":"supplier","wait_ms":1000}`: time.Second} {
			began := time.Now()
			k.post("/v1/limits/take", body).want(t, http.StatusServiceUnavailable, "unknown_outcome")
			if took := time.Since(began); took > most+time.Millisecond {
				t.Errorf("%s: an answer after %v", body, took)
			}
		}
	})
}

// A store that grants less than was asked: who renews as the answer says holds on.
func TestShortLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "url: troubled://")
		a := k.post(acquirePath, `{"key":"job","ttl_ms":30000}`).ok(t)
		if a.body["ttl_ms"] != 7500.0 || a.left() > shortLease {
			t.Fatalf("%v of a lease of %v", a.body, shortLease)
		}
		for range 20 {
			time.Sleep(shortLease / 3)
			if a = k.post(renewPath, id(a)).ok(t); a.left() < shortLease/2 {
				t.Fatalf("renewed: %v", a.body)
			}
		}
		k.post(releasePath, id(a)).ok(t)
	})
}

// Of several keys the first that may be lost says until when all are held.
func TestFirstDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "url: troubled://")
		ends := time.Now().Add(shortLease)
		a := k.post(acquirePath, `{"keys":["a","stale"]}`).ok(t)
		for range 6 {
			time.Sleep(time.Second)
			if a = k.post(renewPath, id(a)).ok(t); time.Now().Add(a.left()).After(ends) {
				t.Fatalf("%v left, %v of the lease", a.left(), time.Until(ends))
			}
		}
		time.Sleep(2 * time.Second)
		k.post(renewPath, id(a)).want(t, http.StatusConflict, "lost")
		k.post(releasePath, id(a)).want(t, http.StatusConflict, "lost")
	})
}

// Many keys that the store does not unlock take no longer than one, and a request does not wait on after its end.
func TestReleaseBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "url: troubled://")
		var keys []string
		for i := range 64 {
			keys = append(keys, fmt.Sprintf(`"stuck%d"`, i))
		}
		held := func(n int) answer { return k.post(acquirePath, `{"keys":[`+strings.Join(keys[:n], ",")+`]}`).ok(t) }
		a, began := held(63), time.Now()
		if got := k.post(releasePath, id(a)).ok(t); got.body["freed"] != false || time.Since(began) > 3*time.Second {
			t.Errorf("%v after %v", got.body, time.Since(began))
		}
		keys = keys[63:]
		a, began = held(1), time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := k.postIn(ctx, releasePath, id(a)).ok(t); got.body["freed"] != false || time.Since(began) > time.Second {
			t.Errorf("%v after %v", got.body, time.Since(began))
		}
	})
}

// A request that is repeated and leaves takes nothing from who has its hold.
func TestRepeatedLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "")
		const body = `{"key":"job","request_id":"r-0123456789abcd"}`
		a := k.post(acquirePath, body).ok(t)
		gone, leave := context.WithCancel(t.Context())
		leave()
		for range 20 { // whichever it sees first
			k.postIn(gone, acquirePath, body)
		}
		k.post(renewPath, id(a)).ok(t)
		k.post(releasePath, id(a)).ok(t)
	})
}

// lateLocker takes locks in its own way.
type lateLocker struct {
	coord.Locker
	try func(key string) (*coord.Lock, error)
}

func (l *lateLocker) TryLock(_ context.Context, key string, _ ...coord.LockOption) (*coord.Lock, error) {
	return l.try(key)
}

// Keys that come when nobody waits any more, and those of an attempt that panics, are given back.
func TestUnheard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "")
		c := k.callers.everybody
		for name, try := range map[string]func(string) (*coord.Lock, error){
			"late": func(key string) (*coord.Lock, error) { return k.client.TryLock(t.Context(), key) },
			"panic": func(key string) (*coord.Lock, error) {
				if key == "b" {
					panic("a test")
				}
				return k.client.TryLock(t.Context(), key)
			},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			a := &attempt{cancel: cancel, done: make(chan struct{})}
			k.mu.Lock()
			k.occupy(c, 1)
			k.mu.Unlock()
			k.attempt(ctx, a, c, requestKey{}, plan{keys: []string{"a", "b"}, locker: &lateLocker{try: try}, ttl: time.Minute})
			<-a.done
			if (a.err == nil) != (name == "late") || k.live != 0 {
				t.Errorf("%s: %v, and %d are live", name, a.err, k.live)
			}
			for _, key := range []string{"a", "b"} {
				again := k.post(acquirePath, fmt.Sprintf(`{"key":%q}`, key)).ok(t)
				k.post(releasePath, id(again)).ok(t)
			}
		}
	})
}

// What is remembered of a hold that has ended is little, and of each caller.
func TestEndedHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, web := start(t, called), bearer("web-web-web-web-web")
		const body = `{"key":"web","request_id":"r-0123456789abcd"}`
		first := k.post(acquirePath, body, web).ok(t)
		k.post(releasePath, id(first), web).ok(t)
		h := k.holds[first.text("id")]
		if a := k.attempts[h.request]; h.locks != nil || a.cancel != nil {
			t.Error("an ended hold keeps its locks or its request")
		}
		for range maxEnded {
			k.forget(&hold{c: k.callers.byName(t, "all")})
		}
		k.post(releasePath, id(first), web).ok(t)
		k.post(acquirePath, body, web).want(t, http.StatusConflict, "not_held")
	})
}

// byName is a caller that has a token.
func (cs *callers) byName(t *testing.T, name string) *caller {
	for _, c := range cs.byToken {
		if c.name == name {
			return c
		}
	}
	t.Fatal(name)
	return nil
}

// Strangers who ask for health cost the store one call a second, and are not told what it says.
func TestHealthBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "url: pinged://")
		pings = 0
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if err := k.ready(t.Context()); err == nil || strings.Contains(err.Error(), "secret") {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if pings != 1 {
			t.Errorf("%d pings", pings)
		}
		time.Sleep(time.Second)
		_ = k.ready(t.Context())
		if pings != 2 {
			t.Errorf("%d pings after a second", pings)
		}
	})
}

// silent does not answer.
type silent struct{ driver.Backend }

var pings int

func init() {
	driver.Register("pinged", func(context.Context, *url.URL) (driver.Backend, error) { return silent{memory.NewStore().Open()}, nil })
}

func (silent) Ping(context.Context) error {
	pings++
	return errors.New("a secret address")
}
