package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// worker is one goroutine of an application.
type worker struct {
	w    *world
	c    *coord.Client
	l    *link
	name string
	rand *rand.Rand
	life context.Context // of the process, or to the end of the run
}

// job is what a worker does once.
type job func(k *worker, ctx context.Context)

// jobsOf are those of a theme; the same one more often for what is done more often.
func jobsOf(t theme) []job {
	all := map[theme][]job{
		locks:   {(*worker).holdOne, (*worker).tryOne, (*worker).byHand, (*worker).byHand, (*worker).fair, (*worker).lead, (*worker).operate, (*worker).abandon, (*worker).keep},
		nested:  {(*worker).nest, (*worker).nest, (*worker).nest, (*worker).several, (*worker).several, (*worker).again, (*worker).holdOne},
		shares:  {(*worker).read, (*worker).read, (*worker).write, (*worker).permits, (*worker).permits, (*worker).downgrade},
		signals: {(*worker).await, (*worker).await, (*worker).signal, (*worker).signal, (*worker).holdOne},
		limits:  {(*worker).allow, (*worker).allow, (*worker).wait, (*worker).reserve, (*worker).charge, (*worker).allowAll},
	}
	for _, of := range []theme{locks, nested, shares, signals, limits} {
		all[mixed] = append(all[mixed], all[of]...)
	}
	return all[t]
}

// work does one job after the other, until the process dies or the run ends.
func (k *worker) work() {
	jobs := jobsOf(k.w.plan.theme)
	for k.rests(k.upTo(200 * time.Millisecond)) {
		jobs[k.rand.IntN(len(jobs))](k, k.life)
	}
}

// rests sleeps, and reports false if the process has died meanwhile.
func (k *worker) rests(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-k.life.Done():
		return false
	}
}

// uses sleeps for d, or until ctx ends.
func uses(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (k *worker) upTo(d time.Duration) time.Duration { return 1 + rand64(k.rand, d) }

func (k *worker) pick(list ...time.Duration) time.Duration { return list[k.rand.IntN(len(list))] }

// key is one of those of the run.
func (k *worker) key() string { return fmt.Sprint("k", k.rand.IntN(k.w.plan.keys)) }

// ttl is short enough to end within the run, or long enough to outlive it.
func (k *worker) ttl() time.Duration {
	return k.pick(300*time.Millisecond, 2*time.Second, 30*time.Second)
}

// while is how long a lock is held: for a few renewals of a short lease.
func (k *worker) while(ttl time.Duration) time.Duration {
	return k.upTo(min(2*ttl, k.pick(time.Second, time.Second, 4*time.Second)))
}

// patient bounds a wait: it ends soon, or never.
func (k *worker) patient(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, k.upTo(k.pick(100*time.Millisecond, 3*time.Second, 20*time.Second)))
}

// ends notes what a call came to.
func (k *worker) ends(op string, err error, allowed ...error) {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	if k.l.isDead() {
		return
	}
	k.w.note("%s %s: %v", k.name, op, err == nil)
	k.w.unexpected(k, op, err, allowed...)
}

// inTime judges when a call with ctx has returned (clause C2).
func (k *worker) inTime(ctx context.Context, op string) {
	if d, ok := ctx.Deadline(); ok && time.Since(d) > 100*time.Millisecond {
		k.w.mu.Lock()
		defer k.w.mu.Unlock()
		k.w.violate("late", "%s %s: %v after its context", k.name, op, time.Since(d))
	}
}

// held judges the lock of key in ctx, of a function under it, and runs fn.
func (k *worker) held(ctx context.Context, p *waiting, excuse bool, fn func()) {
	p.served(k.w)
	l, ok := coord.Held(ctx, p.key)
	if !ok {
		k.w.mu.Lock()
		defer k.w.mu.Unlock()
		k.w.violate("held", "%s has no lock of %q in the function of Do", k.name, p.key)
		return
	}
	h := k.w.holds(k, p.key, l, driver.Share{}, excuse)
	k.w.judgeHandOver(h)
	k.w.hadLock(p.key)
	fn()
	if l.Err() != nil && !isClosed(ctx.Done()) { // its Err looks by itself
		k.w.mu.Lock()
		k.w.violate("untold", "%s lost %q, and its context goes on", k.name, p.key)
		k.w.mu.Unlock()
	}
	k.w.gives(h)
}

// do holds key while fn runs. Who is patient tells that it waits.
func (k *worker) do(ctx context.Context, op, key string, ttl time.Duration, fn func(context.Context), opts ...coord.LockOption) {
	p := k.w.asks(k, key, driver.Share{})
	opts = append(opts, coord.TTL(ttl))
	err := coord.Do(ctx, k.c, key, func(ctx context.Context) error {
		k.held(ctx, p, len(opts) > 1, func() { fn(ctx) })
		return nil
	}, opts...)
	p.ends(k.w)
	k.ends(op+" "+key, err, coord.ErrMaxHold)
}

// holdOne is Do of one key.
func (k *worker) holdOne(ctx context.Context) {
	ttl := k.ttl()
	d := k.while(ttl)
	ctx, cancel := k.patient(ctx)
	defer cancel()
	k.do(ctx, "do", k.key(), ttl, func(ctx context.Context) { uses(ctx, d) })
}

// tryOne is TryDo.
func (k *worker) tryOne(ctx context.Context) {
	key, ttl := k.key(), k.ttl()
	d := k.while(ttl)
	ctx, cancel := k.patient(ctx)
	defer cancel()
	p := k.w.asks(k, key, driver.Share{})
	_, err := coord.TryDo(ctx, k.c, key, func(ctx context.Context) error {
		k.held(ctx, p, false, func() { uses(ctx, d) })
		return nil
	}, coord.TTL(ttl))
	p.ends(k.w)
	k.ends("trydo "+key, err)
}

// lockBy is Lock, or TryLock, and Unlock by hand. Its holder sees only the lock.
func (k *worker) lockBy(ctx context.Context, op string, l coord.Locker, share driver.Share, key, full string, d time.Duration, try bool, opts ...coord.LockOption) *coord.Lock {
	ctx, cancel := k.patient(ctx)
	defer cancel()
	p := k.w.asks(k, full, share)
	defer p.ends(k.w)
	lock := l.Lock
	if try {
		lock = l.TryLock
	}
	got, err := lock(ctx, key, opts...)
	k.inTime(ctx, op)
	if errors.Is(err, coord.ErrNotHeld) {
		k.w.mu.Lock()
		k.w.violate("error", "%s %s: %v", k.name, op, err)
		k.w.mu.Unlock()
	}
	if k.ends(op+" "+strings.ReplaceAll(full, "\x00", "/"), err); err != nil {
		return nil
	}
	p.served(k.w)
	h := k.w.holds(k, full, got, share, len(opts) > 1)
	if share.Mode == driver.Exclusive {
		k.w.hadLock(full)
	}
	under, end := got.Context(context.Background())
	uses(under, d)
	end()
	k.w.gives(h)
	return got
}

// unlock gives a lock back, in the time that Unlock has for it (clause L5).
func (k *worker) unlock(lock *coord.Lock) {
	if lock == nil {
		return
	}
	from := time.Now()
	err := lock.Unlock(context.Background())
	k.ends("unlock "+lock.Key(), err, coord.ErrMaxHold, coord.ErrLost)
	if took := time.Since(from); took > 2*time.Second+100*time.Millisecond {
		k.w.mu.Lock()
		defer k.w.mu.Unlock()
		k.w.violate("late", "%s unlock of %s: after %v", k.name, lock.Key(), took)
	}
}

// byHand is Lock and Unlock, with some of the options.
func (k *worker) byHand(ctx context.Context) {
	key, ttl := k.key(), k.ttl()
	d := k.while(ttl)
	opts := [][]coord.LockOption{
		{coord.TTL(ttl)},
		{coord.TTL(ttl)},
		{coord.TTL(ttl), coord.NoRenew()},
		{coord.TTL(ttl), coord.MaxHold(max(k.upTo(ttl), time.Millisecond))},
		{coord.TTL(ttl)},
	}[k.rand.IntN(5)]
	k.unlock(k.lockBy(ctx, "lock", k.c, driver.Share{}, key, key, d, k.rand.IntN(4) == 0, opts...))
}

// keep is Lock and Unlock of a key that stays taken.
func (k *worker) keep(ctx context.Context) {
	key, ttl := k.key(), k.ttl()
	least := max(k.upTo(min(ttl, 500*time.Millisecond)), time.Millisecond)
	l := k.lockBy(ctx, "keep", k.c, driver.Share{}, key, key, k.upTo(100*time.Millisecond), false, coord.TTL(ttl), coord.MinHold(least))
	if l != nil && l.Err() == nil {
		k.w.keeps(key, int64(l.Token())>>10, least)
	}
	k.unlock(l)
}

// fair is Lock in the order of arrival, where the store has one.
func (k *worker) fair(ctx context.Context) {
	key, ttl := k.key(), k.ttl()
	opts := []coord.LockOption{coord.TTL(ttl)}
	if k.w.plan.shape.queue {
		opts = append(opts, coord.Fair())
	}
	k.unlock(k.lockBy(ctx, "fair", k.c, driver.Share{}, key, key, k.while(ttl)/2, false, opts...))
}

// abandon takes a lock that ends by itself, and forgets it.
func (k *worker) abandon(ctx context.Context) {
	key := k.key()
	k.lockBy(ctx, "abandon", k.c, driver.Share{}, key, key, k.upTo(50*time.Millisecond), false, coord.TTL(300*time.Millisecond), coord.NoRenew())
}

// lead is Lead for a term or more.
func (k *worker) lead(ctx context.Context) {
	key, ttl := k.key(), k.pick(time.Second, 5*time.Second)
	d := k.upTo(2 * time.Second)
	ctx, cancel := k.patient(ctx)
	defer cancel()
	p := k.w.asks(k, key, driver.Share{})
	err := coord.Lead(ctx, k.c, key, func(ctx context.Context) error {
		k.held(ctx, p, false, func() { uses(ctx, d) })
		return nil
	}, coord.TTL(ttl))
	p.ends(k.w)
	k.ends("lead "+key, err)
}

// operate is what an operator does: it looks who holds a key, and may revoke the hold.
func (k *worker) operate(ctx context.Context) {
	key := k.key()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	h, err := k.c.Inspect(ctx, key)
	k.ends("inspect "+key, err, coord.ErrNotHeld)
	if err != nil || k.rand.IntN(3) > 0 {
		return
	}
	err = k.c.Break(ctx, key, h.ID)
	k.ends("break "+key, err, coord.ErrNotHeld)
}

// again enters a lock that it has.
func (k *worker) again(ctx context.Context) {
	key, ttl := k.key(), k.ttl()
	d := k.while(ttl) / 2
	ctx, cancel := k.patient(ctx)
	defer cancel()
	k.do(ctx, "do", key, ttl, func(outer context.Context) {
		l, _ := coord.Held(outer, key)
		err := coord.Do(outer, k.c, key, func(inner context.Context) error {
			if m, _ := coord.Held(inner, key); m == nil || m.Token() != l.Token() {
				k.w.mu.Lock()
				defer k.w.mu.Unlock()
				k.w.violate("token", "%s entered %q again with another token", k.name, key)
			}
			uses(inner, d)
			return nil
		})
		k.ends("again "+key, err)
		uses(outer, d)
	})
}

// nest takes one key under another, in their order. The first is lost soon, sometimes.
func (k *worker) nest(ctx context.Context) {
	i := k.rand.IntN(k.w.plan.keys)
	first, second := fmt.Sprint("k", i), fmt.Sprint("k", min(i+1, k.w.plan.keys-1))
	ttl, inner := k.ttl(), k.ttl()
	d, dInner := k.upTo(100*time.Millisecond), k.while(inner)
	var opts []coord.LockOption
	switch k.rand.IntN(3) {
	case 0:
		opts = append(opts, coord.MaxHold(d+k.upTo(50*time.Millisecond))) // while the second is asked for, often
	case 1:
		ttl = 300 * time.Millisecond
	}
	ctx, cancel := k.patient(ctx)
	defer cancel()
	k.do(ctx, "do", first, ttl, func(ctx context.Context) {
		if uses(ctx, d); first != second {
			k.do(ctx, "nest", second, inner, func(ctx context.Context) { uses(ctx, dInner) })
		}
	}, opts...)
}

// several is DoAll, or TryDoAll.
func (k *worker) several(ctx context.Context) {
	keys := []string{k.key(), k.key(), k.key()}
	ttl := k.ttl()
	d := k.while(ttl)
	ctx, cancel := k.patient(ctx)
	defer cancel()
	fn := func(ctx context.Context) error {
		seen := map[string]bool{}
		var holds []*holding
		for _, key := range keys {
			l, ok := coord.Held(ctx, key)
			if seen[key] || !ok {
				continue
			}
			seen[key] = true
			holds = append(holds, k.w.holds(k, key, l, driver.Share{}, false))
			k.w.hadLock(key)
		}
		uses(ctx, d)
		for _, h := range holds {
			k.w.gives(h)
		}
		return nil
	}
	for _, key := range keys {
		p := k.w.asks(k, key, driver.Share{})
		p.ofMany(k.w)
		defer p.ends(k.w)
	}
	var err error
	if k.rand.IntN(3) == 0 {
		_, err = coord.TryDoAll(ctx, k.c, keys, fn, coord.TTL(ttl))
	} else {
		err = coord.DoAll(ctx, k.c, keys, fn, coord.TTL(ttl))
	}
	k.ends("several "+keys[0], err, coord.ErrLost) // an operator may have revoked one
}
