package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/host"
)

type store = driver.Backend

// link is the network between one life of a client and the store.
type link struct {
	driver.Unimplemented

	w     *world
	n     int // the client
	name  string
	store store
	life  context.Context // until the client is closed or dies
	end   context.CancelFunc

	mu    sync.Mutex
	until time.Time     // of the pause
	lag   time.Duration // of each reply
	step  time.Duration // of the wall clock
	steps time.Time     // when it was stepped last
	died  time.Time
	doom  chan struct{} // the process dies soon
}

var (
	errWire = errors.New("sim: the connection was reset")
	errMute = errors.New("sim: no answer for a long time")
)

func newLink(w *world, n int, name string, s store) *link {
	l := &link{w: w, n: n, name: name, store: s, doom: make(chan struct{}, 1)}
	l.life, l.end = context.WithCancel(context.Background())
	return l
}

func (l *link) stepped() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.steps
}

// Host implements host.Simulated: a wall clock that is stepped, and the chance of the seed.
func (l *link) Host() host.Host {
	c := clock.New()
	c.Read = func() clock.Instant {
		now := c.At(time.Now())
		l.mu.Lock()
		defer l.mu.Unlock()
		now.Wall += int64(l.step)
		return now
	}
	return host.Host{Clock: c, Jitter: func(key string, d time.Duration) time.Duration {
		return time.Duration(l.w.draw(l.name, "jitter", key).Int64N(int64(d)))
	}}
}

// Info implements driver.Backend: a store that is not in this process, so that the client spares calls.
func (l *link) Info() driver.Info {
	info := l.store.Info()
	info.Name = "sim"
	info.Claims = append(info.Claims.Without(driver.ScopeProcess).Without(driver.Vote), driver.ScopeHosts)
	if !l.w.plan.shape.queue {
		info.Claims = info.Claims.Without(driver.Fair).Without(driver.Wake)
	}
	if l.w.plan.shape.delayed {
		info.Claims = append(info.Claims, driver.MinHoldAfterExit)
	}
	return info
}

// Close implements driver.Backend.
func (l *link) Close() error {
	l.end()
	return nil
}

// isDead reports whether the process of the client has died.
func (l *link) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.died.IsZero()
}

// diedAt is when it died; zero: it lives.
func (l *link) diedAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.died
}

// fate is what becomes of one call.
type fate struct {
	there, back             time.Duration
	unsent, refused, unseen bool // the request is lost, is refused, the reply is lost
	mute                    bool // what is lost is not noticed
}

// callerKey is for the name of a worker in its context.
type callerKey struct{}

// fateOf draws the fate of a call. It is drawn for the worker, or the client, the call, the key and the count of those, and
// not for who comes first: so a run can be repeated. That latencies are of nanoseconds makes all moments differ.
func (l *link) fateOf(ctx context.Context, op, key string) fate {
	caller, ok := ctx.Value(callerKey{}).(string)
	if !ok {
		caller = l.name
	}
	f, r := l.w.plan.faults, l.w.draw(caller, op, key)
	if l.w.quiet.Load() {
		f = faults{}
	}
	if op == f.weak {
		f.lost = max(f.lost, 0.5)
	}
	latency := func() time.Duration {
		if r.Float64() < f.slow {
			return 1 + rand64(r, []time.Duration{30, 150, 700, 1500}[r.IntN(4)]*time.Millisecond)
		}
		return 1 + rand64(r, 2*time.Millisecond)
	}
	x := fate{there: latency(), back: latency()}
	switch p := r.Float64(); {
	case p < f.lost/2:
		x.unsent = true
	case p < f.lost:
		x.unseen = true
	case p < f.lost+f.refuse:
		x.refused = true
	}
	x.mute = (x.unsent || x.unseen) && r.Float64() < f.mute*5
	return x
}

func rand64(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

// travel takes d, and as long as the client is paused.
func (l *link) travel(d time.Duration) {
	time.Sleep(d)
	l.mu.Lock()
	pause := time.Until(l.until)
	l.mu.Unlock()
	if pause > 0 {
		time.Sleep(pause + d)
	}
}

// call is one call of the client. Its apply goes on at the store when the caller has left.
func call[T any](ctx context.Context, l *link, op, key, id string, apply func(context.Context) (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	var none T
	if l.life.Err() != nil {
		return none, driver.ErrClosed
	}
	x := l.fateOf(ctx, op, key)
	over := l.w.sent(ctx, l, id)
	defer over()
	answered := make(chan answer, 1)
	l.w.calls.Go(func() {
		defer over()
		a := answer{none, errWire}
		switch l.travel(x.there); {
		case x.refused:
			a.err = driver.NotSent(errWire)
		case x.unsent && x.mute:
			return
		case !x.unsent:
			a.v, a.err = apply(l.life)
			l.w.count(l, op, key, a.err)
		}
		l.travel(x.back + l.lagged())
		if x.unseen {
			a.err = errWire
			if x.mute {
				return
			}
		}
		answered <- a
	})
	mute := time.NewTimer(3 * time.Second) // a connection is given up in the end
	defer mute.Stop()
	select {
	case a := <-answered:
		return a.v, a.err
	case <-ctx.Done():
		return none, ctx.Err()
	case <-mute.C:
		if op != "lock" || x.mute {
			return none, errMute
		}
	case <-l.life.Done():
		return none, driver.ErrClosed
	}
	select { // a wait in the queue
	case a := <-answered:
		return a.v, a.err
	case <-ctx.Done():
		return none, ctx.Err()
	case <-l.life.Done():
		return none, driver.ErrClosed
	}
}

func (l *link) lagged() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lag
}

// do is call for what gives nothing but an error.
func (l *link) do(ctx context.Context, op, key, id string, apply func(context.Context) error) error {
	_, err := call(ctx, l, op, key, id, func(ctx context.Context) (struct{}, error) { return struct{}{}, apply(ctx) })
	return err
}

// Locks.

func (l *link) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return call(ctx, l, "trylock", key, r.ID, func(context.Context) (driver.Grant, error) {
		g, err := l.store.TryLock(context.Background(), key, r)
		return l.w.granted(l, key, r, g, err)
	})
}

func (l *link) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	l.w.renews(l, key, r)
	return call(ctx, l, "renew", key, r.ID, func(context.Context) (driver.Grant, error) {
		g, err := l.store.Renew(context.Background(), key, r)
		l.w.renewed(r, err)
		return g, err
	})
}

func (l *link) Unlock(ctx context.Context, key, id string) error {
	l.w.releases(l, id)
	return l.do(ctx, "unlock", key, id, func(context.Context) error {
		err := l.store.Unlock(context.Background(), key, id)
		l.w.withdrawn(key, id, err)
		return err
	})
}

// Inspect and Break are an operator's.
func (l *link) Inspect(ctx context.Context, key string) (driver.Holder, error) {
	return call(ctx, l, "inspect", key, "", func(context.Context) (driver.Holder, error) {
		return l.store.Inspect(context.Background(), key)
	})
}

func (l *link) Break(ctx context.Context, key, id string) error {
	return l.do(ctx, "break", key, "", func(context.Context) error {
		l.w.broken(key)
		return l.store.Break(context.Background(), key, id)
	})
}

func (l *link) BreakNow(ctx context.Context, key, id string) error {
	return l.do(ctx, "breaknow", key, "", func(context.Context) error {
		l.w.broken(key)
		return l.store.BreakNow(context.Background(), key, id)
	})
}

// Limits.

func (l *link) Take(ctx context.Context, key string, limit driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	asks = slices.Clone(asks)
	return call(ctx, l, "take", key, "", func(context.Context) (driver.Taken, error) {
		return l.store.Take(context.Background(), key, limit, asks)
	})
}

func (l *link) TakeOne(ctx context.Context, key string, limit driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	return driver.One(l.Take(ctx, key, limit, []driver.Ask{a}))
}

func (l *link) Reset(ctx context.Context, key string, limit driver.Limit) error {
	return l.do(ctx, "reset", key, "", func(context.Context) error { return l.store.Reset(context.Background(), key, limit) })
}

func (l *link) TakeAll(ctx context.Context, demands []driver.Demand) ([]driver.Taken, error) {
	demands = slices.Clone(demands)
	return call(ctx, l, "takeall", demands[0].Key, "", func(context.Context) ([]driver.Taken, error) {
		return l.store.TakeAll(context.Background(), demands)
	})
}

func (l *link) Refund(ctx context.Context, key string, limit driver.Limit, id string, n int) error {
	return l.do(ctx, "refund", key, "", func(context.Context) error {
		return l.store.Refund(context.Background(), key, limit, id, n)
	})
}

func (l *link) Charge(ctx context.Context, key string, limit driver.Limit, n int) (driver.Charged, error) {
	return call(ctx, l, "charge", key, "", func(context.Context) (driver.Charged, error) {
		return l.store.Charge(context.Background(), key, limit, n)
	})
}

// Shared gives the part for keys that several hold.
func (l *link) Shared() driver.SharedLocker { return &sharedLink{l: l} }

// sharedLink is the part for keys that several hold. Names of its calls are apart, for the keys are.
type sharedLink struct {
	driver.Unimplemented
	l *link
}

func (s *sharedLink) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	l := s.l
	return call(ctx, l, "enter", key, r.ID, func(context.Context) (driver.Grant, error) {
		g, err := l.store.Shared().TryLock(context.Background(), key, r)
		return l.w.granted(l, key, r, g, err)
	})
}

func (s *sharedLink) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	l := s.l
	l.w.renews(l, key, r)
	return call(ctx, l, "stay", key, r.ID, func(context.Context) (driver.Grant, error) {
		g, err := l.store.Shared().Renew(context.Background(), key, r)
		l.w.renewed(r, err)
		return g, err
	})
}

func (s *sharedLink) Unlock(ctx context.Context, key, id string) error {
	l := s.l
	l.w.releases(l, id)
	return l.do(ctx, "leave", key, id, func(context.Context) error {
		err := l.store.Shared().Unlock(context.Background(), key, id)
		l.w.withdrawn(key, id, err)
		l.w.meets(l, id, err)
		return err
	})
}

func (s *sharedLink) Holders(ctx context.Context, key string) ([]driver.Holder, error) {
	l := s.l
	return call(ctx, l, "holders", key, "", func(context.Context) ([]driver.Holder, error) {
		return l.store.Shared().Holders(context.Background(), key)
	})
}

// NotifyChanges pushes what is told of a key, some time later.
func (s *sharedLink) NotifyChanges(ctx context.Context, key string, changed func()) error {
	l := s.l
	if !l.w.plan.shape.pushes {
		return driver.ErrUnsupported
	}
	told, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(l.life, stop)()
	err := l.store.Shared().NotifyChanges(told, key, func() {
		back := l.fateOf(ctx, "changed", key).back
		l.w.calls.Go(func() {
			if l.travel(back); told.Err() == nil {
				changed()
			}
		})
	})
	return err
}

func (s *sharedLink) RenewAll(ctx context.Context, holds []driver.Hold) []driver.Renewal {
	return s.l.renewAll(ctx, holds, s.Renew)
}

func (l *link) RenewAll(ctx context.Context, holds []driver.Hold) []driver.Renewal {
	return l.renewAll(ctx, holds, l.Renew)
}

// renewAll renews holds in one request, each with a fate of its own, if the plan's shape has that.
func (l *link) renewAll(ctx context.Context, holds []driver.Hold, renew func(context.Context, string, driver.Request) (driver.Grant, error)) []driver.Renewal {
	if !l.w.plan.shape.batch {
		return nil
	}
	answers := make([]driver.Renewal, len(holds))
	var all sync.WaitGroup
	for i, h := range holds {
		all.Go(func() {
			answers[i].Grant, answers[i].Err = renew(ctx, h.Key, h.Request)
		})
	}
	all.Wait()
	return answers
}

// Lock waits at the store. The place in the queue is left when the caller has left, or a while later, or never, if that is lost: the core withdraws it.
func (l *link) Lock(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	left := make(chan struct{})
	var telling sync.Mutex // nobody is told who has left
	defer func() {
		telling.Lock()
		defer telling.Unlock()
		close(left)
	}()
	tell := func() {
		telling.Lock()
		defer telling.Unlock()
		select {
		case <-left:
		default:
			waits()
		}
	}
	x := l.fateOf(ctx, "leavequeue", key)
	return call(ctx, l, "lock", key, r.ID, func(life context.Context) (driver.Grant, error) {
		waiting, stop := context.WithCancel(life)
		defer stop()
		if !x.unsent {
			l.w.calls.Go(func() {
				select {
				case <-left:
					l.travel(x.there)
					stop()
				case <-waiting.Done():
				}
			})
		}
		defer l.w.queued(key, r)()
		g, err := l.store.Lock(waiting, key, r, tell)
		if waiting.Err() != nil && err != nil {
			err = fmt.Errorf("sim: the wait was left: %w", errWire)
		}
		return l.w.granted(l, key, r, g, err)
	})
}

// UnlockAfter ends a hold later.
func (l *link) UnlockAfter(ctx context.Context, key, id string, after time.Duration) error {
	l.w.releases(l, id)
	return l.do(ctx, "unlockafter", key, id, func(context.Context) error {
		return l.store.UnlockAfter(context.Background(), key, id, after)
	})
}
