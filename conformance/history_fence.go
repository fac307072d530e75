package conformance

import (
	"errors"
	"sync"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/conformance/internal/history"
)

// resource is what a lock protects, twice: once behind a check of tokens, and a twin without it.
type resource struct {
	e       *env
	key     string
	guard   coord.Guard
	guarded *history.Log
	twin    *history.Log
}

func (e *env) resource(key string) *resource {
	return &resource{e: e, key: key, guarded: e.record(history.Heading{Model: history.ModelFence}), twin: e.record(history.Heading{Model: history.ModelFence})}
}

// write writes to both with the token of a lock. As long as that is held, nobody can have a greater token.
func (r *resource) write(client int, l *coord.Lock) {
	if !r.put(client, l.Token()) && l.Err() == nil {
		r.e.Errorf("write of a holder: saw token %d refused after %d, and yet its Err nil, want the greatest token", l.Token(), r.newest())
	}
}

// put writes to both, and reports whether the guarded one took it.
func (r *resource) put(client int, t coord.Token) bool {
	o := history.Operation{Client: client, Op: history.OpWrite, Key: r.key, Token: int64(t), Result: history.OK}
	twin := o
	twin.Call = r.twin.Now()
	twin.Return = r.twin.Now()
	r.twin.Add(twin)
	o.Call = r.guarded.Now()
	if err := r.guard.Check(r.key, t); err != nil {
		o.Result, o.Error = history.Refused, err.Error()
	}
	o.Return = r.guarded.Now()
	r.guarded.Add(o)
	return o.Result == history.OK
}

// newest is the greatest token that has written.
func (r *resource) newest() coord.Token {
	newest := int64(0)
	for _, o := range r.guarded.ByKey()[r.key] {
		newest = max(newest, o.Token)
	}
	return coord.Token(newest)
}

// verdict fails the case if the guarded resource took a stale write, and also if the twin took none: for
// then the scenario shows nothing.
func (r *resource) verdict() {
	r.e.linearizable(r.guarded)
	ops := r.twin.ByKey()[r.key]
	v, err := r.twin.Check(ops, patience)
	r.e.noError(err, "check of the unguarded twin")
	if !errors.Is(v.Err, history.ErrNotLinearizable) {
		r.e.Errorf("the unguarded twin: saw no stale write among %d, want one after each holder that did not look: the scenario shows nothing", len(ops))
	}
}

// staleWriters: a holder whose client is cut off goes on writing after its lease without looking, while
// others lock and write.
func staleWriters(e *env) {
	const rounds = 3
	r := e.resource(e.key("k"))
	b, link := byDriver(e)
	careless := e.clientOn(b)
	done := make(chan struct{})
	var others sync.WaitGroup
	for i := range 2 {
		c := e.client()
		others.Go(func() { r.writer(c, i+1, done) })
	}
	e.Cleanup(others.Wait) // they end with the case
	for range rounds {
		l := r.lock(careless)
		if l == nil {
			e.Fatalf("the case was ended before the holder that will be cut off had the lock")
		}
		r.write(0, l)
		blackHole(link)
		e.until(e.lapse(l.TTL())+soon, "the next holder to write", func() bool { return r.newest() > l.Token() })
		for range 3 {
			if r.put(0, l.Token()) {
				e.Errorf("guarded resource: saw it take token %d after %d, want a refusal", l.Token(), r.newest())
			}
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
func (r *resource) writer(c *coord.Client, client int, done <-chan struct{}) {
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
				r.write(client, l)
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
		r := e.resource(e.key("k"))
		var frozen []*worker
		for i := range processes {
			w := e.startWorker()
			token := w.do(order{Do: "lock", Key: r.key, TTL: e.ttl}).Token
			if !r.put(i, token) {
				e.Errorf("write with the token of a lock that was just granted: saw it refused, want it taken")
			}
			w.freeze()
			frozen = append(frozen, w)
		}
		l := e.inherits(lockKind, r.key, "that is frozen")
		r.write(processes, l)
		for i, w := range frozen {
			w.send(order{Do: "state"}) // finds it stopped, and is the first that it does
			w.thaw()
			a := w.answer("write after the thaw")
			if !a.Lost || !a.Done {
				e.Errorf("a holder that was frozen past its lease: saw Err lost %v, Done closed %v as it woke up, want both", a.Lost, a.Done)
			}
			if r.put(i, a.Token) {
				e.Errorf("guarded resource: saw it take token %d of a frozen holder after %d, want a refusal", a.Token, l.Token())
			}
		}
		e.noError(l.Err(), "the newest holder's lock")
		e.gaveBack(l.Unlock(e.ctx), "the newest holder's Unlock")
		r.verdict()
	}
}
