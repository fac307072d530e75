package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/coordgo/coord/conformance/internal/history"
	"github.com/coordgo/coord/driver"
)

// What cases do with the holds of a bare driver: exclusive ones, whose Share is the zero value, and those that share a key.

var (
	exclusive = driver.Share{}
	reader    = driver.Share{Mode: driver.Read}
	writer    = driver.Share{Mode: driver.Write}
)

// permits takes weight of n.
func permits(weight, n int64) driver.Share {
	return driver.Share{Mode: driver.Permits, Weight: weight, Of: n}
}

// atHead is s for the head of the queue.
func atHead(s driver.Share) driver.Share {
	s.Head = true
	return s
}

// shared opens a client of the store, and gives the part that keeps shared holds.
func (e *env) shared() driver.SharedLocker { return e.open().Shared() }

// share asks for a hold of s under a new id, and req for an exclusive one.
func (e *env) share(s driver.Share, ttl time.Duration) driver.Request {
	return driver.Request{ID: e.newID(), TTL: ttl, Share: s}
}

func (e *env) req(ttl time.Duration) driver.Request { return e.share(exclusive, ttl) }

// served makes a call on the bare driver, and makes it again for as long as again says that its error tells how busy the
// machine is.
func served[T any](e *env, again func(error) bool, call func(context.Context) (T, error)) (T, error) {
	ctx := e.within(soon)
	for {
		v, err := call(ctx)
		if !again(err) || ctx.Err() != nil {
			return v, err
		}
		rest(ctx, 50*time.Millisecond)
	}
}

// unsent reports whether err says that the machine was too slow to connect to its store in time: nothing was sent.
func (e *env) unsent(err error) bool { return !e.timely() && errors.Is(err, driver.ErrNotSent) }

// unanswered reports whether err says no more of the store than that it did not answer in the time that the driver or its
// client library allows it. On a machine that tells how busy it is.
func (e *env) unanswered(err error) bool {
	return e.unsent(err) || err != nil && !e.timely() && !driver.Definite(err)
}

// tryLock is TryLock on the bare driver. An attempt that was not answered is followed by the next, as ever with the same id.
func (e *env) tryLock(l driver.Locker, key string, r driver.Request) (driver.Grant, error) {
	return served(e, e.unanswered, func(ctx context.Context) (driver.Grant, error) { return l.TryLock(ctx, key, r) })
}

// take is TryLock of a free key.
func (e *env) take(l driver.Locker, key string, r driver.Request) driver.Grant {
	return e.entered(l, key, r, "TryLock of a free key")
}

// enter takes key for s under a new id, which has to be granted at once.
func (e *env) enter(l driver.Locker, key string, s driver.Share, what string) (driver.Request, driver.Grant) {
	r := e.share(s, e.long)
	return r, e.entered(l, key, r, what)
}

// entered is enter for a request.
func (e *env) entered(l driver.Locker, key string, r driver.Request, what string) driver.Grant {
	g, err := e.tryLock(l, key, r)
	switch {
	case err != nil:
		e.Fatalf("%s: saw %v, want it granted", what, err)
	case g.Token < 1 || g.Token > driver.MaxToken:
		e.Errorf("%s: saw token %d, want 1 to 2^53-1", what, g.Token)
	case g.TTL <= 0:
		e.Errorf("%s: saw a granted TTL of %v, want what the store really granted, above 0", what, g.TTL)
	case g.Slot < 0 || g.Slot >= driver.MaxHolders:
		e.Errorf("%s: saw slot %d, want 0 to %d", what, g.Slot, driver.MaxHolders-1)
	}
	return g
}

// renew renews a hold that is live.
func (e *env) renew(l driver.Locker, key string, r driver.Request, what string) driver.Grant {
	g, err := l.Renew(e.within(soon), key, r)
	e.noError(err, what)
	return g
}

// keeps renews a hold, which is what it was.
func (e *env) keeps(l driver.Locker, key string, r driver.Request, was driver.Grant, what string) {
	if g := e.renew(l, key, r, what); g.Token != was.Token || g.Slot != was.Slot {
		e.Errorf("%s: saw token %d and slot %d, want those of its hold, %d and %d", what, g.Token, g.Slot, was.Token, was.Slot)
	}
}

// notRenewed fails the case if a hold that is over, or that never was, is renewed.
func (e *env) notRenewed(l driver.Locker, key string, r driver.Request, what string) {
	_, err := l.Renew(e.within(soon), key, r)
	e.wantError(err, what, driver.ErrNotHeld)
}

// end is Unlock of a hold on the bare driver. One that was not answered may have been made.
func (e *env) end(l driver.Locker, key, id, what string) {
	made := false
	_, err := served(e, e.unanswered, func(ctx context.Context) (_ struct{}, err error) {
		err = l.Unlock(ctx, key, id)
		if made && errors.Is(err, driver.ErrNotHeld) {
			err = nil
		}
		made = made || !driver.Definite(err)
		return struct{}{}, err
	})
	e.noError(err, what)
}

// leave gives shared holds back.
func (e *env) leave(l driver.Locker, key string, holds ...driver.Request) {
	for _, r := range holds {
		e.end(l, key, r.ID, "Unlock of a shared hold")
	}
}

// passes enters key, and gives it back.
func (e *env) passes(l driver.Locker, key string, s driver.Share, what string) {
	r, _ := e.enter(l, key, s, what)
	e.leave(l, key, r)
}

// refused fails the case unless another id is refused key now.
func (e *env) refused(l driver.Locker, key, when string) bool {
	return e.keptOut(l, key, exclusive, "TryLock by another id "+when)
}

// keptOut fails the case unless s is refused key under a new id.
func (e *env) keptOut(l driver.Locker, key string, s driver.Share, what string) bool {
	r := e.share(s, e.ttl)
	_, err := e.tryLock(l, key, r)
	if err != nil {
		return e.wantError(err, what, driver.ErrLocked)
	}
	e.Errorf("%s: saw a grant, want ErrLocked", what)
	if err := l.Unlock(e.within(soon), key, r.ID); err != nil {
		e.Logf("its Unlock: %v", err)
	}
	return false
}

// free waits until key can be taken, gives it back and says when the attempt that
// got it was answered. It fails the case when that takes longer than within.
func (e *env) free(l driver.Locker, key string, within time.Duration, when string) (driver.Grant, time.Time) {
	return e.freeFor(l, key, exclusive, within, when)
}

// freeFor is free for a share of key.
func (e *env) freeFor(l driver.Locker, key string, s driver.Share, within time.Duration, when string) (driver.Grant, time.Time) {
	r := e.share(s, e.long) // which a store that is slow for a moment does not let lapse
	g, at := e.seize(l, key, r, within, when)
	e.end(l, key, r.ID, "Unlock of a fresh hold")
	return g, at
}

// seize tries until r has key.
func (e *env) seize(l driver.Locker, key string, r driver.Request, within time.Duration, when string) (driver.Grant, time.Time) {
	start := time.Now()
	within = e.bound(within)
	for {
		g, err := e.tryLock(l, key, r)
		now := time.Now()
		switch {
		case err == nil:
			return g, now
		case !errors.Is(err, driver.ErrLocked):
			e.Fatalf("TryLock of a locked key %s: saw %v, want ErrLocked or a grant", when, err)
		case now.Sub(start) > within:
			e.Fatalf("key %s: saw it still locked after %v, want it free within %v", when, now.Sub(start).Round(time.Millisecond), within)
		}
		e.pass(time.Millisecond)
	}
}

// lapsed waits until s is granted key, which is the case when a lease of ttl has ended.
func (e *env) lapsed(l driver.Locker, key string, s driver.Share, ttl time.Duration, when string) (driver.Request, driver.Grant, time.Time) {
	r := e.share(s, e.long)
	g, at := e.seize(l, key, r, e.lapse(ttl), when)
	return r, g, at
}

// sharersOf gives the holders of key by id.
func (e *env) sharersOf(l driver.SharedLocker, key string) map[string]driver.Holder {
	all, err := l.Holders(e.within(soon), key)
	e.noError(err, "Holders")
	byID := make(map[string]driver.Holder)
	for _, h := range all {
		if _, twice := byID[h.ID]; twice {
			e.Errorf("Holders: saw %s twice, want each hold once", history.ShortID(h.ID))
		}
		byID[h.ID] = h
	}
	return byID
}

// rises fails the case unless a token is greater than the one before.
func rises[T ~int64](e *env, whose string, now, before T) {
	if now <= before {
		e.Errorf("token of %s: saw %d after %d, want a greater one", whose, now, before)
	}
}

// marked runs ask while the refusal of a head counts, which is certain for driver.HeadFor. ask gives what it was granted
// although it should not, or nothing.
func (e *env) marked(l driver.SharedLocker, key string, head driver.Request, ask func() (driver.Request, error)) {
	for began := time.Now(); time.Since(began) < watchdog; {
		start := time.Now()
		if _, err := l.TryLock(e.within(soon), key, head); !errors.Is(err, driver.ErrLocked) {
			e.Fatalf("TryLock of a head for which there is no room: saw %v, want ErrLocked", err)
		}
		r, err := ask()
		switch {
		case errors.Is(err, driver.ErrLocked):
			return
		case err != nil:
			e.Fatalf("TryLock while the head waits: saw %v, want ErrLocked", err)
		case time.Since(start) < driver.HeadFor:
			e.Errorf("TryLock while the head waits, %v after it was refused: saw a grant, want ErrLocked", time.Since(start))
			e.leave(l, key, r)
			return
		}
		e.leave(l, key, r)
	}
	e.Fatalf("waited %v for two calls that take less than %v together", watchdog, driver.HeadFor)
}

// asking asks for s, for marked.
func (e *env) asking(l driver.Locker, key string, s driver.Share) func() (driver.Request, error) {
	return func() (driver.Request, error) {
		r := e.share(s, e.long)
		_, err := l.TryLock(e.within(soon), key, r)
		return r, err
	}
}
