package conformance

import (
	"errors"
	"sync"
	"time"

	"github.com/coordgo/coord"
)

// resource is what a lock protects, behind a check of tokens. It counts what a twin without that check would have taken
// from holders who did not look.
type resource struct {
	e   *env
	key string

	mu    sync.Mutex
	guard coord.Guard
	last  coord.Token // the greatest that has written
	stale int         // writes that the check has refused
}

// write writes with the token of a lock. As long as that is held, nobody can have a greater token.
func (r *resource) write(l *coord.Lock) {
	if !r.put(l.Token()) && l.Err() == nil {
		r.e.Errorf("write of a holder: saw token %d refused after %d, and yet its Err nil, want the greatest token", l.Token(), r.newest())
	}
}

// put writes, and reports whether the resource took it.
func (r *resource) put(t coord.Token) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken, stale := r.guard.Check(r.key, t) == nil, t < r.last
	if taken == stale {
		r.e.Errorf("guarded resource: saw token %d after %d taken %v, want %v", t, r.last, taken, !stale)
	}
	if stale {
		r.stale++
	}
	r.last = max(r.last, t)
	return taken
}

// newest is the greatest token that has written.
func (r *resource) newest() coord.Token {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// verdict fails the case if the unguarded twin took no stale write either: then the scenario shows nothing.
func (r *resource) verdict() {
	if r.stale == 0 {
		r.e.Errorf("the unguarded twin: saw no stale write, want one after each holder that did not look: the scenario shows nothing")
	}
}

// staleWriters: a holder whose client is cut off goes on writing after its lease without looking, while
// others lock and write.
func staleWriters(e *env) {
	const rounds = 3
	r := &resource{e: e, key: e.key("k")}
	b, link := byDriver(e)
	careless := e.clientOn(b)
	done := make(chan struct{})
	var others sync.WaitGroup
	for range 2 {
		c := e.client()
		others.Go(func() { r.writer(c, done) })
	}
	e.Cleanup(others.Wait) // they end with the case
	for range rounds {
		l := r.lock(careless)
		if l == nil {
			e.Fatalf("the case was ended before the holder that will be cut off had the lock")
		}
		r.write(l)
		blackHole(link)
		e.until(e.lapse(l.TTL())+soon, "the next holder to write", func() bool { return r.newest() > l.Token() })
		for range 3 {
			r.put(l.Token())
		}
		link.Heal()
		e.wantError(l.Unlock(e.ctx), "Unlock of the holder that was cut off past its lease", coord.ErrLost)
	}
	close(done)
	others.Wait()
	r.verdict()
}

// lock locks for a writer, nil if the case ends before. A store that is too slow for the lease says that it is
// unavailable, which is told and no matter here.
func (r *resource) lock(c *coord.Client) *coord.Lock {
	for {
		l, err := c.Lock(r.e.ctx, r.key, coord.TTL(r.e.ttl))
		switch {
		case err == nil:
			return l
		case r.e.ctx.Err() != nil:
			return nil
		case !errors.Is(err, coord.ErrUnavailable):
			r.e.Errorf("Lock of a writer: saw %v, want a lock", err)
			return nil
		}
		r.e.Logf("Lock of a writer: %v", err)
		rest(r.e.ctx, 50*time.Millisecond)
	}
}

// writer locks, writes a few times and unlocks, again and again.
func (r *resource) writer(c *coord.Client, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		default:
		}
		l := r.lock(c)
		if l == nil {
			return
		}
		for range 3 {
			if l.Err() == nil {
				r.write(l)
			}
		}
		rest(r.e.ctx, 10*time.Millisecond)
		// A machine that is busy may lose the lock: it is a lease.
		_ = l.Unlock(r.e.ctx)
		rest(r.e.ctx, 10*time.Millisecond)
	}
}

// frozenWriters: processes that are stopped before a write, one after the other, and go on when
// others have long written.
func frozenWriters(processes int) func(*env) {
	return func(e *env) {
		r := &resource{e: e, key: e.key("k")}
		var frozen []*worker
		for range processes {
			w := e.startWorker()
			token := w.do(order{Do: "lock", Key: r.key, TTL: e.ttl}).Token
			if !r.put(token) {
				e.Errorf("write with the token of a lock that was just granted: saw it refused, want it taken")
			}
			w.freeze()
			frozen = append(frozen, w)
		}
		l := e.inherits(lockKind, r.key, "that is frozen")
		r.write(l)
		for _, w := range frozen {
			w.send(order{Do: "state"}) // finds it stopped, and is the first that it does
			w.thaw()
			a := w.answer("write after the thaw")
			if !a.Lost || !a.Done {
				e.Errorf("a holder that was frozen past its lease: saw Err lost %v, Done closed %v as it woke up, want both", a.Lost, a.Done)
			}
			if r.put(a.Token) {
				e.Errorf("guarded resource: saw it take token %d of a frozen holder after %d, want a refusal", a.Token, l.Token())
			}
		}
		e.noError(l.Err(), "the newest holder's lock")
		e.gaveBack(l.Unlock(e.ctx), "the newest holder's Unlock")
		r.verdict()
	}
}
