package sim

import (
	"context"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// read, write and permits take a key that several hold.

func (k *worker) read(ctx context.Context) {
	k.share(ctx, "read", k.c.ReadWrite().Read(), driver.Share{Mode: driver.Read}, ofReaders)
}

func (k *worker) write(ctx context.Context) {
	k.share(ctx, "write", k.c.ReadWrite().Write(), driver.Share{Mode: driver.Write}, ofReaders)
}

func (k *worker) permits(ctx context.Context) {
	n := 1 + k.rand.IntN(2)
	k.share(ctx, "permits", k.c.Semaphore(3), driver.Share{Mode: driver.Permits, Weight: int64(n), Of: 3}, ofSemaphore, coord.Weight(n))
}

func (k *worker) share(ctx context.Context, op string, l coord.Locker, share driver.Share, suffix string, opts ...coord.LockOption) {
	key, ttl := k.key(), k.ttl()
	d, try := k.while(ttl), k.rand.IntN(4) == 0
	k.unlock(k.lockBy(ctx, op, l, share, key, key+suffix, d, try, append([]coord.LockOption{coord.TTL(ttl)}, opts...)...))
}

// downgrade enters as a writer, then as a reader, and leaves as a writer first.
func (k *worker) downgrade(ctx context.Context) {
	key, ttl := k.key(), k.ttl()
	d := k.while(ttl) / 2
	ctx, cancel := k.patient(coord.WithOwner(ctx))
	defer cancel()
	p := k.w.asks(k, key+ofReaders, driver.Share{Mode: driver.Write})
	defer p.ends(k.w)
	w, err := k.c.ReadWrite().Write().Lock(ctx, key, coord.TTL(ttl))
	if k.ends("downgrade "+key, err); err != nil {
		return
	}
	p.served(k.w)
	h := k.w.holds(k, key+ofReaders, w, driver.Share{Mode: driver.Write}, false)
	uses(ctx, d)
	r, err := k.c.ReadWrite().Read().Lock(ctx, key)
	k.w.mu.Lock()
	if h.share.Mode = driver.Read; err == nil {
		h.lock = r
	}
	k.w.mu.Unlock()
	if err == nil {
		k.unlock(w)
		uses(ctx, d)
	}
	k.w.gives(h)
	if err == nil {
		k.unlock(r)
	} else {
		k.unlock(w)
	}
}

// condLease is the lease of who waits on a condition: far longer than anybody should sleep through a signal.
const condLease = 30 * time.Second

// await waits on the condition of a key, a few times.
func (k *worker) await(ctx context.Context) {
	key := k.key()
	ctx, cancel := context.WithTimeout(ctx, k.pick(0, 20*time.Second)+k.upTo(2*time.Second))
	defer cancel()
	p := k.w.asks(k, key, driver.Share{})
	err := coord.Do(ctx, k.c, key, func(ctx context.Context) error {
		for range 1 + k.rand.IntN(3) {
			var err error
			l, ok := coord.Held(ctx, key)
			if !ok {
				return coord.ErrNotHeld
			}
			p.served(k.w)
			h := k.w.holds(k, key, l, driver.Share{}, false)
			k.w.hadLock(key)
			uses(ctx, k.upTo(20*time.Millisecond))
			k.w.gives(h)
			s := k.w.sleeps(k, key, cancel)
			err = k.c.Cond(key).Wait(ctx)
			k.w.wakesUp(s, err)
			if err != nil {
				return err
			}
		}
		return nil
	}, coord.TTL(condLease))
	p.ends(k.w)
	k.ends("await "+key, err, coord.ErrNotHeld)
}

// signal wakes one, or all.
func (k *worker) signal(ctx context.Context) {
	key, all := k.key(), k.rand.IntN(4) == 0
	ctx, cancel := k.patient(ctx)
	defer cancel()
	d := k.upTo(50 * time.Millisecond)
	k.do(ctx, "signal", key, condLease, func(ctx context.Context) {
		c := k.c.Cond(key)
		send := c.Signal
		if all {
			send = c.Broadcast
		}
		if uses(ctx, d); k.w.owes(key) { // one signal after the other, so that a wake-up is of one of them
			return
		}
		err := send(ctx)
		if k.ends("send "+key, err); err == nil {
			k.w.signals(k, key, all)
		}
	})
}
