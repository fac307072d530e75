package conformance_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/holders"
)

// sharedBug is a mutant of a store that keeps shared holds. nil functions are those of the sound store.
type sharedBug struct {
	tryLock   func(r *holders.Record, q driver.Request, now time.Time) (driver.Grant, error)
	renew     func(r *holders.Record, q driver.Request, now time.Time) (driver.Grant, error)
	unlock    func(r *holders.Record, id string, now time.Time) error
	breaks    func(r *holders.Record, id string, now time.Time) error
	breaksNow func(r *holders.Record, id string, now time.Time) error
	live      func(r *holders.Record, now time.Time) []driver.Holder
	name      func(key string) string // of the record
	twoSteps  bool                    // what was read is not compared when it is written
	mute      bool                    // changes are told of once
	own       bool                    // the record is the client's own
	batch     func(l sharedLocker, holds []driver.Hold) []driver.Renewal
	places    func(time.Duration) time.Duration // the leases of places in the queue
}

var sharedRules = holders.Rules{MaxHolders: driver.MaxHolders}

// shelves are the records of shared holds of one store.
type shelves struct {
	mu      sync.Mutex
	records map[string]*sharedRecord
}

type sharedRecord struct {
	holders.Record
	told map[*func()]struct{}
}

// sharing makes a harness of a memory store with another part that keeps shared holds.
func sharing(bug sharedBug) func() harness {
	return func() harness {
		shared := &shelves{records: make(map[string]*sharedRecord)}
		return on(func(s store) driver.Backend {
			in := shared
			if bug.own {
				in = &shelves{records: make(map[string]*sharedRecord)}
			}
			if bug.places != nil {
				s = timedLease{s, bug.places}
			}
			return &sharer{store: s, locker: sharedLocker{in: in, bug: bug, s: s}}
		})()
	}
}

type sharer struct {
	store
	locker sharedLocker
}

func (b *sharer) Shared() driver.SharedLocker { return b.locker }

type sharedLocker struct {
	driver.Unimplemented
	in  *shelves
	bug sharedBug
	s   store
}

// change makes one step on the record of key.
func (l sharedLocker) change(ctx context.Context, key string, step func(r *holders.Record, now time.Time) error) error {
	if err := l.s.Ping(ctx); err != nil {
		return err // closed, or the context has ended
	}
	if l.bug.name != nil {
		key = l.bug.name(key)
	}
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	rec := l.in.records[key]
	if rec == nil {
		rec = &sharedRecord{told: make(map[*func()]struct{})}
		l.in.records[key] = rec
	}
	if !l.bug.twoSteps {
		return step(&rec.Record, time.Now())
	}
	seen := rec.Record
	seen.Holds = slices.Clone(seen.Holds)
	l.in.mu.Unlock()
	time.Sleep(200 * time.Microsecond) // the way to the store and back
	l.in.mu.Lock()
	err := step(&seen, time.Now())
	rec.Record = seen
	return err
}

func (l sharedLocker) TryLock(ctx context.Context, key string, q driver.Request) (g driver.Grant, err error) {
	if err := errors.Join(q.Share.Check(), driverTTL(q.TTL)); err != nil {
		return g, err
	}
	err = l.change(ctx, key, func(r *holders.Record, now time.Time) (err error) {
		if l.bug.tryLock != nil {
			g, err = l.bug.tryLock(r, q, now)
		} else {
			g, err = r.TryLock(q, now, sharedRules)
		}
		return err
	})
	return g, err
}

func driverTTL(ttl time.Duration) error {
	if ttl <= 0 {
		return driver.ErrInvalid
	}
	return nil
}

func (l sharedLocker) Renew(ctx context.Context, key string, q driver.Request) (g driver.Grant, err error) {
	err = l.change(ctx, key, func(r *holders.Record, now time.Time) (err error) {
		if l.bug.renew != nil {
			g, err = l.bug.renew(r, q, now)
		} else {
			g, err = r.Renew(q, now, sharedRules)
		}
		return err
	})
	l.tell(key, err)
	return g, err
}

func (l sharedLocker) Unlock(ctx context.Context, key, id string) error {
	err := l.change(ctx, key, func(r *holders.Record, now time.Time) error {
		if l.bug.unlock != nil {
			return l.bug.unlock(r, id, now)
		}
		return r.Unlock(id, now, sharedRules)
	})
	l.tell(key, err)
	return err
}

func (l sharedLocker) Break(ctx context.Context, key, id string) error {
	return l.change(ctx, key, func(r *holders.Record, now time.Time) error {
		if l.bug.breaks != nil {
			return l.bug.breaks(r, id, now)
		}
		return r.Break(id, now, sharedRules)
	})
}

func (l sharedLocker) BreakNow(ctx context.Context, key, id string) error {
	err := l.change(ctx, key, func(r *holders.Record, now time.Time) error {
		if l.bug.breaksNow != nil {
			return l.bug.breaksNow(r, id, now)
		}
		return r.BreakNow(id, now, sharedRules)
	})
	l.tell(key, err)
	return err
}

func (l sharedLocker) Holders(ctx context.Context, key string) (live []driver.Holder, err error) {
	err = l.change(ctx, key, func(r *holders.Record, now time.Time) error {
		if l.bug.live != nil {
			live = l.bug.live(r, now)
		} else {
			live = r.Live(now)
		}
		return nil
	})
	return live, err
}

func (l sharedLocker) RenewAll(ctx context.Context, holds []driver.Hold) []driver.Renewal {
	if l.bug.batch != nil {
		return l.bug.batch(l, holds)
	}
	out := make([]driver.Renewal, len(holds))
	for i, h := range holds {
		out[i].Grant, out[i].Err = l.Renew(ctx, h.Key, h.Request)
	}
	return out
}

func (l sharedLocker) NotifyChanges(ctx context.Context, key string, changed func()) error {
	l.in.mu.Lock()
	rec := l.in.records[key]
	if rec == nil {
		rec = &sharedRecord{told: make(map[*func()]struct{})}
		l.in.records[key] = rec
	}
	rec.told[&changed] = struct{}{}
	l.in.mu.Unlock()
	changed()
	<-ctx.Done()
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	delete(rec.told, &changed)
	return ctx.Err()
}

// tell tells who wants to know that key has changed.
func (l sharedLocker) tell(key string, err error) {
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	if rec := l.in.records[key]; err == nil && rec != nil && !l.bug.mute {
		for changed := range rec.told {
			(*changed)()
		}
	}
}

var _ driver.SharedLocker = sharedLocker{}
