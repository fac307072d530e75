package conformance

import (
	"errors"
	"time"

	"github.com/coordgo/coord/conformance/internal/history"
	"github.com/coordgo/coord/driver"
)

var (
	reader = driver.Share{Mode: driver.Read}
	writer = driver.Share{Mode: driver.Write}
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
func (e *env) shared() driver.SharedLocker { return e.sharedOf(e.open()) }

func (e *env) sharedOf(b driver.Backend) driver.SharedLocker {
	return b.Shared()
}

// share asks for a hold of s under a new id.
func (e *env) share(s driver.Share, ttl time.Duration) driver.Request {
	r := e.req(ttl)
	r.Share = s
	return r
}

// enter takes key for s under a new id, which has to be granted at once.
func (e *env) enter(l driver.SharedLocker, key string, s driver.Share, what string) (driver.Request, driver.Grant) {
	r := e.share(s, e.long)
	return r, e.entered(l, key, r, what)
}

// entered is enter for a request.
func (e *env) entered(l driver.SharedLocker, key string, r driver.Request, what string) driver.Grant {
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

// keptOut fails the case unless s is refused key under a new id.
func (e *env) keptOut(l driver.SharedLocker, key string, s driver.Share, what string) bool {
	r := e.share(s, e.ttl)
	_, err := e.tryLock(l, key, r)
	if err == nil {
		e.Errorf("%s: saw a grant, want ErrLocked", what)
		e.leave(l, key, r)
		return false
	}
	return e.wantError(err, what, driver.ErrLocked)
}

// leave gives a hold back.
func (e *env) leave(l driver.SharedLocker, key string, r driver.Request) {
	e.end(l, key, r.ID, "Unlock of a shared hold")
}

// takesAll has a writer, or who takes all permits there are, enter key, and gives it back.
func (e *env) takesAll(l driver.SharedLocker, key string, s driver.Share, what string) {
	r, _ := e.enter(l, key, s, what)
	e.leave(l, key, r)
}

// lapsed waits until s is granted key, which is the case when a lease of ttl has ended.
func (e *env) lapsed(l driver.SharedLocker, key string, s driver.Share, ttl time.Duration, when string) (driver.Request, driver.Grant, time.Time) {
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
