package sim

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

// mutant is a store with one mistake. The seeds of its theme have to show it.
type mutant struct {
	name  string
	theme theme
	bend  func(b *bent, m *notes)
}

func refused(err error) bool { return errors.Is(err, driver.ErrLocked) }

// isLock reports whether next is the part of a store for exclusive locks.
func isLock(next driver.Locker) bool {
	_, exclusive := next.(driver.Backend)
	return exclusive
}

// bothLocks bends what is granted by TryLock, and by Lock.
func bothLocks(b *bent, change func(key string, r driver.Request, g *driver.Grant)) {
	b.tryLock = func(next driver.Locker, key string, r driver.Request) (driver.Grant, error) {
		g, err := next.TryLock(bg, key, r)
		if err == nil {
			change(key, r, &g)
		}
		return g, err
	}
	b.lock = func(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
		g, err := b.store.Lock(ctx, key, r, waits)
		if err == nil {
			change(key, r, &g)
		}
		return g, err
	}
}

// tokensOf bends tokens, of renewals, too.
func tokensOf(b *bent, change func(int64) int64) {
	bothLocks(b, func(_ string, _ driver.Request, g *driver.Grant) { g.Token = change(g.Token) })
	b.renew = func(next driver.Locker, key string, r driver.Request) (driver.Grant, error) {
		g, err := next.Renew(bg, key, r)
		g.Token = change(g.Token)
		return g, err
	}
}

// leaseOf bends the leases that the store grants, and not what it says of them.
func leaseOf(b *bent, change func(time.Duration) time.Duration) {
	told := func(g driver.Grant, r driver.Request) driver.Grant {
		if g.TTL > 0 {
			g.TTL = r.TTL
		}
		return g
	}
	b.tryLock = func(next driver.Locker, key string, r driver.Request) (driver.Grant, error) {
		q := r
		q.TTL = change(r.TTL)
		g, err := next.TryLock(bg, key, q)
		return told(g, r), err
	}
	b.lock = func(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
		q := r
		q.TTL = change(r.TTL)
		g, err := b.store.Lock(ctx, key, q, waits)
		return told(g, r), err
	}
	b.renew = func(next driver.Locker, key string, r driver.Request) (driver.Grant, error) {
		q := r
		q.TTL = change(r.TTL)
		g, err := next.Renew(bg, key, q)
		return told(g, r), err
	}
}

// holder is who has key.
func holder(b *bent, next driver.Locker, key string) (id string, token int64) {
	if !isLock(next) {
		if all, _ := next.(driver.SharedLocker).Holders(bg, key); len(all) > 0 {
			return all[0].ID, int64(all[0].Token)
		}
		return "", 0
	}
	h, err := b.store.Inspect(bg, key)
	if err != nil {
		return "", 0
	}
	return h.ID, int64(h.Token)
}

// intrude grants to who is refused, as long as when says so.
func intrude(b *bent, when func(driver.Locker, driver.Request) bool) {
	b.tryLock = func(next driver.Locker, key string, r driver.Request) (driver.Grant, error) {
		g, err := next.TryLock(bg, key, r)
		if refused(err) && when(next, r) {
			_, token := holder(b, next, key)
			return driver.Grant{Token: token + 1, TTL: r.TTL, Slot: 7}, nil
		}
		return g, err
	}
}

// limitOf bends the limit by which the store counts.
func limitOf(b *bent, change func(key string, l driver.Limit) driver.Limit) {
	b.take = func(key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
		return b.store.Take(bg, key, change(key, l), asks)
	}
}

var lockMutants = []mutant{
	{"a key that is taken is granted", locks, func(b *bent, _ *notes) {
		intrude(b, func(next driver.Locker, _ driver.Request) bool { return isLock(next) })
	}},
	{"a key that is taken is granted, now and then", locks, func(b *bent, m *notes) {
		intrude(b, func(next driver.Locker, _ driver.Request) bool { return isLock(next) && m.add("tries")%30 == 0 })
	}},
	{"a renewal creates", locks, func(b *bent, _ *notes) {
		b.renew = func(next driver.Locker, key string, r driver.Request) (driver.Grant, error) {
			g, err := next.Renew(bg, key, r)
			if errors.Is(err, driver.ErrNotHeld) {
				return next.TryLock(bg, key, r)
			}
			return g, err
		}
	}},
	{"a renewal renews nothing", locks, func(b *bent, _ *notes) {
		b.renew = func(next driver.Locker, key string, r driver.Request) (driver.Grant, error) {
			_, token := holder(b, next, key)
			return driver.Grant{Token: token, TTL: r.TTL}, nil
		}
	}},
	{"a renewal is confirmed to whoever asks", locks, func(b *bent, m *notes) {
		b.renew = func(next driver.Locker, key string, r driver.Request) (driver.Grant, error) {
			g, err := next.Renew(bg, key, r)
			m.mu.Lock()
			defer m.mu.Unlock()
			if err == nil {
				m.n[r.ID] = g.Token
			} else if m.n[r.ID] != 0 {
				return driver.Grant{Token: m.n[r.ID], TTL: r.TTL}, nil
			}
			return g, err
		}
	}},
	{"a renewal is not held", locks, func(b *bent, _ *notes) {
		b.renew = func(driver.Locker, string, driver.Request) (driver.Grant, error) {
			return driver.Grant{}, driver.ErrNotHeld
		}
	}},
	{"a renewal has another token", locks, func(b *bent, _ *notes) {
		b.renew = func(next driver.Locker, key string, r driver.Request) (driver.Grant, error) {
			g, err := next.Renew(bg, key, r)
			g.Token++
			return g, err
		}
	}},
	{"a renewal shortens", locks, func(b *bent, _ *notes) {
		b.renew = func(next driver.Locker, key string, r driver.Request) (driver.Grant, error) {
			g, err := next.Renew(bg, key, r)
			if err == nil { // no store that can be asked for less does this
				_ = next.Unlock(bg, key, r.ID)
				q := r
				q.TTL /= 4
				_, err = next.TryLock(bg, key, q)
			}
			return g, err
		}
	}},
	{"a release frees whoever holds", locks, func(b *bent, _ *notes) {
		b.unlock = func(next driver.Locker, key, _ string) error {
			id, _ := holder(b, next, key)
			return next.Unlock(bg, key, id)
		}
	}},
	{"a release is made twice", locks, func(b *bent, _ *notes) {
		b.unlock = func(next driver.Locker, key, id string) error {
			err := next.Unlock(bg, key, id)
			if now, _ := holder(b, next, key); now != id && now != "" {
				_ = next.Unlock(bg, key, now)
			}
			return err
		}
	}},
	{"a release frees nothing", locks, func(b *bent, _ *notes) {
		b.unlock = func(driver.Locker, string, string) error { return nil }
	}},
	{"every tenth release frees nothing", locks, func(b *bent, m *notes) {
		b.unlock = func(next driver.Locker, key, id string) error {
			if m.add("releases")%10 == 0 {
				return nil
			}
			return next.Unlock(bg, key, id)
		}
	}},
	{"a release is not held", locks, func(b *bent, _ *notes) {
		b.unlock = func(next driver.Locker, key, id string) error {
			_ = next.Unlock(bg, key, id)
			return driver.ErrNotHeld
		}
	}},
	{"a release is not held, and frees nothing", locks, func(b *bent, _ *notes) {
		b.unlock = func(driver.Locker, string, string) error { return driver.ErrNotHeld }
	}},
	{"a token is repeated", locks, func(b *bent, _ *notes) { tokensOf(b, func(int64) int64 { return 9 }) }},
	{"each second token is repeated", locks, func(b *bent, _ *notes) { tokensOf(b, func(t int64) int64 { return (t + 1) / 2 * 2 }) }},
	{"tokens fall", locks, func(b *bent, _ *notes) { tokensOf(b, func(t int64) int64 { return 1<<40 - t }) }},
	{"tokens begin again after each 64", locks, func(b *bent, _ *notes) { tokensOf(b, func(t int64) int64 { return t%64 + 1 }) }},
	{"a lease is half of what is told", locks, func(b *bent, _ *notes) {
		leaseOf(b, func(d time.Duration) time.Duration { return d / 2 })
	}},
	{"a lease is a tenth shorter than what is told", locks, func(b *bent, _ *notes) {
		leaseOf(b, func(d time.Duration) time.Duration { return d * 9 / 10 })
	}},
	{"a lease lasts", locks, func(b *bent, _ *notes) {
		leaseOf(b, func(d time.Duration) time.Duration { return d + 10*time.Second })
	}},
	{"a grant is told late", locks, func(b *bent, _ *notes) {
		bothLocks(b, func(_ string, r driver.Request, g *driver.Grant) { g.Since = time.Now().Add(r.TTL / 2) })
	}},
	{"a lease is told to be twice as long", locks, func(b *bent, _ *notes) {
		bothLocks(b, func(_ string, _ driver.Request, g *driver.Grant) { g.TTL *= 2 })
	}},
	{"a renewed lease is told to be twice as long", nested, func(b *bent, _ *notes) {
		b.renew = func(next driver.Locker, key string, r driver.Request) (driver.Grant, error) {
			g, err := next.Renew(bg, key, r)
			g.TTL *= 2
			return g, err
		}
	}},
	{"a wake-up is lost", locks, func(b *bent, _ *notes) {
		b.lock = func(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
			for ctx.Err() == nil {
				if g, err := b.store.TryLock(bg, key, r); !refused(err) {
					return g, err
				}
				waits()
				waits = func() {}
				uses(ctx, 20*time.Second)
			}
			return driver.Grant{}, ctx.Err()
		}
	}},
	{"a fair waiter joins the queue late", locks, func(b *bent, _ *notes) {
		b.lock = func(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
			uses(ctx, 500*time.Millisecond)
			return b.store.Lock(ctx, key, r, waits)
		}
	}},
	{"a waiter that has left stays in the queue", locks, func(b *bent, _ *notes) {
		b.lock = func(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
			bound, stop := context.WithTimeout(bg, time.Minute)
			defer stop()
			return b.store.Lock(bound, key, r, waits)
		}
	}},
	{"a waiter is refused", locks, func(b *bent, _ *notes) {
		b.lock = func(context.Context, string, driver.Request, func()) (driver.Grant, error) {
			return driver.Grant{}, driver.ErrNotHeld
		}
	}},
	{"once refused, always refused", locks, func(b *bent, m *notes) {
		b.tryLock = func(next driver.Locker, key string, r driver.Request) (driver.Grant, error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.n[r.ID] > 0 {
				return driver.Grant{}, driver.ErrLocked
			}
			g, err := next.TryLock(bg, key, r)
			if refused(err) {
				m.n[r.ID] = 1
			}
			return g, err
		}
	}},
	{"two keys are one", locks, func(b *bent, _ *notes) {
		b.tryLock = func(next driver.Locker, _ string, r driver.Request) (driver.Grant, error) {
			return next.TryLock(bg, "k1", r)
		}
		b.renew = func(next driver.Locker, _ string, r driver.Request) (driver.Grant, error) {
			return next.Renew(bg, "k1", r)
		}
		b.unlock = func(next driver.Locker, _, id string) error { return next.Unlock(bg, "k1", id) }
		b.lock = func(ctx context.Context, _ string, r driver.Request, waits func()) (driver.Grant, error) {
			return b.store.Lock(ctx, "k1", r, waits)
		}
	}},
	{"each client has locks of its own", locks, func(b *bent, m *notes) {
		own := "k0" + string('a'+rune(m.add("clients")))
		b.tryLock = func(next driver.Locker, key string, r driver.Request) (driver.Grant, error) {
			return next.TryLock(bg, own+key, r)
		}
		b.renew = func(next driver.Locker, key string, r driver.Request) (driver.Grant, error) {
			return next.Renew(bg, own+key, r)
		}
		b.unlock = func(next driver.Locker, key, id string) error { return next.Unlock(bg, own+key, id) }
		b.unlockAfter = func(key, id string, d time.Duration) error { return b.store.UnlockAfter(bg, own+key, id, d) }
		b.lock = func(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
			return b.store.Lock(ctx, own+key, r, waits)
		}
	}},
	{"MinHold frees at once", locks, func(b *bent, _ *notes) {
		b.unlockAfter = func(key, id string, _ time.Duration) error { return b.store.Unlock(bg, key, id) }
	}},
	{"MinHold is half as long", locks, func(b *bent, _ *notes) {
		b.unlockAfter = func(key, id string, d time.Duration) error { return b.store.UnlockAfter(bg, key, id, d/2) }
	}},
	{"MinHold gives nothing back", locks, func(b *bent, _ *notes) {
		b.unlockAfter = func(string, string, time.Duration) error { return nil }
	}},
	{"Break frees at once", locks, func(b *bent, _ *notes) {
		b.breaks = func(key, id string) error { return b.store.Unlock(bg, key, id) }
	}},
	{"all holds are forgotten after a while", locks, func(b *bent, m *notes) {
		b.tryLock = func(next driver.Locker, key string, r driver.Request) (driver.Grant, error) {
			if id, _ := holder(b, next, key); m.once(key, 5*time.Second) {
				_ = next.Unlock(bg, key, id)
			}
			return next.TryLock(bg, key, r)
		}
	}},
}

var sharedMutants = []mutant{
	{"a reader enters beside a writer", shares, func(b *bent, _ *notes) {
		intrude(b, func(_ driver.Locker, r driver.Request) bool { return r.Share.Mode == driver.Read })
	}},
	{"a writer enters beside readers", shares, func(b *bent, _ *notes) {
		intrude(b, func(_ driver.Locker, r driver.Request) bool { return r.Share.Mode == driver.Write })
	}},
	{"a writer enters as a reader", shares, func(b *bent, _ *notes) {
		b.tryLock = func(next driver.Locker, key string, r driver.Request) (driver.Grant, error) {
			if r.Share.Mode == driver.Write {
				r.Share.Mode = driver.Read
			}
			return next.TryLock(bg, key, r)
		}
	}},
	{"a writer is renewed as a reader", shares, func(b *bent, _ *notes) {
		b.renew = func(next driver.Locker, key string, r driver.Request) (driver.Grant, error) {
			if r.Share.Mode == driver.Write {
				r.Share.Mode = driver.Read
			}
			return next.Renew(bg, key, r)
		}
	}},
	{"there is a permit more", shares, func(b *bent, _ *notes) {
		b.tryLock = func(next driver.Locker, key string, r driver.Request) (driver.Grant, error) {
			if r.Share.Mode == driver.Permits {
				r.Share.Of++
			}
			return next.TryLock(bg, key, r)
		}
	}},
	{"a weight counts as one", shares, func(b *bent, _ *notes) {
		b.tryLock = func(next driver.Locker, key string, r driver.Request) (driver.Grant, error) {
			if r.Share.Mode == driver.Permits {
				r.Share.Weight = 1
			}
			return next.TryLock(bg, key, r)
		}
	}},
	{"a renewal gives a permit back", shares, func(b *bent, _ *notes) {
		b.renew = func(next driver.Locker, key string, r driver.Request) (driver.Grant, error) {
			if r.Share.Mode == driver.Permits {
				r.Share.Weight = 1
			}
			return next.Renew(bg, key, r)
		}
	}},
	{"all have one slot", shares, func(b *bent, _ *notes) {
		bothLocks(b, func(_ string, _ driver.Request, g *driver.Grant) { g.Slot = 0 })
	}},
	{"a slot is given twice", shares, func(b *bent, _ *notes) {
		bothLocks(b, func(_ string, _ driver.Request, g *driver.Grant) { g.Slot /= 2 })
	}},
	{"tokens of holders are equal", shares, func(b *bent, _ *notes) { tokensOf(b, func(t int64) int64 { return t/8 + 1 }) }},
	{"tokens of holders fall", shares, func(b *bent, _ *notes) { tokensOf(b, func(t int64) int64 { return 1<<40 - t }) }},
	{"the head is like everybody", shares, func(b *bent, _ *notes) {
		b.tryLock = func(next driver.Locker, key string, r driver.Request) (driver.Grant, error) {
			r.Share.Head = false
			return next.TryLock(bg, key, r)
		}
	}},
	{"a reader renews nothing", shares, func(b *bent, _ *notes) {
		b.renew = func(next driver.Locker, key string, r driver.Request) (driver.Grant, error) {
			if r.Share.Mode != driver.Read {
				return next.Renew(bg, key, r)
			}
			all, _ := next.(driver.SharedLocker).Holders(bg, key)
			for _, h := range all {
				if h.ID == r.ID {
					return driver.Grant{Token: int64(h.Token), TTL: r.TTL, Slot: h.Slot}, nil
				}
			}
			return driver.Grant{}, driver.ErrNotHeld
		}
	}},
	{"one who leaves takes another along", shares, func(b *bent, _ *notes) {
		b.unlock = func(next driver.Locker, key, id string) error {
			err := next.Unlock(bg, key, id)
			if other, _ := holder(b, next, key); other != "" && !isLock(next) {
				_ = next.Unlock(bg, key, other)
			}
			return err
		}
	}},
	{"one who leaves stays", shares, func(b *bent, _ *notes) {
		b.unlock = func(next driver.Locker, key, id string) error {
			if isLock(next) {
				return next.Unlock(bg, key, id)
			}
			return nil
		}
	}},
	{"a share lasts half of what is told", shares, func(b *bent, _ *notes) {
		leaseOf(b, func(d time.Duration) time.Duration { return d / 2 })
	}},
	{"a share outlives its lease", shares, func(b *bent, _ *notes) {
		leaseOf(b, func(d time.Duration) time.Duration { return d + 10*time.Second })
	}},
	{"holders are forgotten after a while", shares, func(b *bent, m *notes) {
		b.tryLock = func(next driver.Locker, key string, r driver.Request) (driver.Grant, error) {
			if id, _ := holder(b, next, key); !isLock(next) && m.add(key)%20 == 0 {
				_ = next.Unlock(bg, key, id)
			}
			return next.TryLock(bg, key, r)
		}
	}},
	{"nobody is seen to wait", signals, func(b *bent, _ *notes) {
		b.holders = func([]driver.Holder) []driver.Holder { return nil }
	}},
	{"the first that waits is not seen", signals, func(b *bent, _ *notes) {
		b.holders = func(all []driver.Holder) []driver.Holder { return all[min(1, len(all)):] }
	}},
	{"a signal ends the place of nobody", signals, func(b *bent, m *notes) {
		b.unlock = func(next driver.Locker, key, id string) error {
			if !isLock(next) && m.swap(id, "seen") == "" {
				return nil
			}
			return next.Unlock(bg, key, id)
		}
	}},
	{"a signal finds nobody", signals, func(b *bent, _ *notes) {
		b.unlock = func(next driver.Locker, key, id string) error {
			if isLock(next) {
				return next.Unlock(bg, key, id)
			}
			return driver.ErrNotHeld
		}
	}},
}

var limitMutants = []mutant{
	{"a permit more in a window", limits, func(b *bent, _ *notes) {
		limitOf(b, func(_ string, l driver.Limit) driver.Limit {
			if l.Burst == 0 {
				l.Rate++
			}
			return l
		})
	}},
	{"a permit less in a window", limits, func(b *bent, _ *notes) {
		limitOf(b, func(_ string, l driver.Limit) driver.Limit {
			if l.Burst == 0 {
				l.Rate--
			}
			return l
		})
	}},
	{"three more at once in a bucket", limits, func(b *bent, _ *notes) {
		limitOf(b, func(_ string, l driver.Limit) driver.Limit {
			if l.Burst > 0 {
				l.Burst += 3
			}
			return l
		})
	}},
	{"a bucket fills twice as fast", limits, func(b *bent, _ *notes) {
		limitOf(b, func(_ string, l driver.Limit) driver.Limit {
			if l.Burst > 0 {
				l.Rate *= 2
			}
			return l
		})
	}},
	{"a window is half as long", limits, func(b *bent, _ *notes) {
		limitOf(b, func(_ string, l driver.Limit) driver.Limit {
			if l.Burst == 0 {
				l.Per /= 2
			}
			return l
		})
	}},
	{"a sliding window is fixed", limits, func(b *bent, _ *notes) {
		limitOf(b, func(_ string, l driver.Limit) driver.Limit {
			if l.Algorithm == driver.SlidingWindow {
				l.Algorithm = driver.FixedWindow
			}
			return l
		})
	}},
	{"each client has limits of its own", limits, func(b *bent, m *notes) {
		own := string('a' + rune(m.add("clients")))
		b.take = func(key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
			return b.store.Take(bg, own+key, l, asks)
		}
	}},
	{"a denied request is granted", limits, func(b *bent, _ *notes) {
		b.take = func(key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
			t, err := b.store.Take(bg, key, l, asks)
			for i := range t.Asks {
				if t.Asks[i].N == 0 && asks[i].MaxDelay == 0 {
					t.Asks[i] = driver.Granted{N: asks[i].N, ValidFor: time.Second}
				}
			}
			return t, err
		}
	}},
	{"a denied request takes what there is", limits, func(b *bent, _ *notes) {
		b.take = func(key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
			t, err := b.store.Take(bg, key, l, asks)
			for i := range t.Asks {
				if a := asks[i]; t.Asks[i].N == 0 && a.N > 0 {
					_, _ = b.store.Take(bg, key, l, []driver.Ask{{Min: 1, N: a.N}})
				}
			}
			return t, err
		}
	}},
	{"permits are granted twice as often as they are debited", limits, func(b *bent, m *notes) {
		b.take = func(key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
			t, err := b.store.Take(bg, key, l, asks)
			if len(t.Asks) > 0 && t.Asks[0].N > 0 && m.add(key)%2 == 0 {
				_, _ = b.store.Charge(bg, key, l, -t.Asks[0].N)
			}
			return t, err
		}
	}},
	{"less is granted than the least that was asked for", limits, func(b *bent, _ *notes) {
		b.take = func(key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
			asks = slices.Clone(asks)
			for i := range asks {
				asks[i].Min = min(asks[i].Min, 1)
			}
			return b.store.Take(bg, key, l, asks)
		}
	}},
	{"a denial is for a minute", limits, func(b *bent, _ *notes) {
		b.take = func(key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
			t, err := b.store.Take(bg, key, l, asks)
			for i := range t.Asks {
				if t.Asks[i].RetryAfter > 0 {
					t.Asks[i].RetryAfter = time.Minute
				}
			}
			return t, err
		}
	}},
	{"what is reserved is due at once", limits, func(b *bent, _ *notes) {
		b.take = func(key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
			t, err := b.store.Take(bg, key, l, asks)
			for i := range t.Asks {
				t.Asks[i].Delay = 0
			}
			return t, err
		}
	}},
	{"what is reserved is not debited", limits, func(b *bent, _ *notes) {
		b.take = func(key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
			t, err := b.store.Take(bg, key, l, asks)
			for i := range t.Asks {
				if t.Asks[i].Delay > 0 {
					_, _ = b.store.Charge(bg, key, l, -t.Asks[i].N)
				}
			}
			return t, err
		}
	}},
	{"a refund is made twice", limits, func(b *bent, _ *notes) {
		b.refund = func(key string, l driver.Limit, id string, n int) error {
			_, _ = b.store.Charge(bg, key, l, -n)
			return b.store.Refund(bg, key, l, id, n)
		}
	}},
	{"a charge is of nothing", limits, func(b *bent, _ *notes) {
		b.charge = func(key string, l driver.Limit, _ int) (driver.Charged, error) { return b.store.Charge(bg, key, l, 0) }
	}},
	{"a charge gives back", limits, func(b *bent, _ *notes) {
		b.charge = func(key string, l driver.Limit, n int) (driver.Charged, error) { return b.store.Charge(bg, key, l, -n) }
	}},
	{"a charge is of what is left", limits, func(b *bent, _ *notes) {
		b.charge = func(key string, l driver.Limit, n int) (driver.Charged, error) {
			c, err := b.store.Charge(bg, key, l, 0)
			if err == nil && c.Remaining < n {
				n = c.Remaining
			}
			return b.store.Charge(bg, key, l, n)
		}
	}},
	{"of several limits the first is taken alone", limits, func(b *bent, _ *notes) {
		b.takeAll = func(demands []driver.Demand) ([]driver.Taken, error) {
			t, err := b.store.TakeAll(bg, demands)
			if err == nil && t[1].Asks[0].N > 0 {
				_, _ = b.store.Charge(bg, demands[1].Key, demands[1].Limit, -demands[1].N)
			}
			return t, err
		}
	}},
	{"of several limits the first is taken before a denial", limits, func(b *bent, _ *notes) {
		b.takeAll = func(demands []driver.Demand) ([]driver.Taken, error) {
			t, err := b.store.TakeAll(bg, demands)
			if err == nil && t[1].Asks[0].N == 0 {
				_, _ = b.store.Charge(bg, demands[0].Key, demands[0].Limit, 4)
			}
			return t, err
		}
	}},
	{"of several limits one is granted alone", limits, func(b *bent, _ *notes) {
		b.takeAll = func(demands []driver.Demand) ([]driver.Taken, error) {
			all := make([]driver.Taken, len(demands))
			for i, d := range demands {
				t, err := b.store.Take(bg, d.Key, d.Limit, []driver.Ask{{Min: d.N, N: d.N}})
				if err != nil {
					return nil, err
				}
				all[i] = t
			}
			return all, nil
		}
	}},
	{"all permits are there again after a while", limits, func(b *bent, m *notes) {
		b.take = func(key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
			if m.add(key)%25 == 0 {
				_ = b.store.Reset(bg, key, l)
			}
			return b.store.Take(bg, key, l, asks)
		}
	}},
	{"answers are in another order", limits, func(b *bent, _ *notes) {
		b.take = func(key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
			t, err := b.store.Take(bg, key, l, asks)
			slices.Reverse(t.Asks)
			return t, err
		}
	}},
}

// kill gives what showed the mutant, in a seed of its theme in which a sound store shows nothing.
func (m *mutant) kill(t *testing.T) (seed uint64, kind string) {
	for seed := uint64(m.theme); seed < 4*everyRun; seed += uint64(themes) {
		if len(sound(t, seed).violations) > 0 { // it shows nothing of a mutant
			continue
		}
		memory := &notes{n: map[string]int64{}, names: map[string]string{}}
		o := simulate(t, planOf(seed), func(s store) store {
			if memory.began.IsZero() {
				memory.began = time.Now()
			}
			b := &bent{store: s}
			m.bend(b, memory)
			return b
		}, true, false)
		if len(o.violations) > 0 {
			return seed, o.violations[0].kind
		}
	}
	return 0, ""
}

// Each mistake of a store is seen.
func TestMutants(t *testing.T) {
	repeatable(t)
	all := slices.Concat(lockMutants, sharedMutants, limitMutants)
	for _, m := range all {
		began := cpu()
		seed, kind := m.kill(t)
		if kind == "" {
			t.Errorf("%v: %s: no seed shows it", m.theme, m.name)
			continue
		}
		t.Logf("%v: %s: %s by seed %d in %v", m.theme, m.name, kind, seed, (cpu() - began).Round(time.Millisecond))
	}
	t.Logf("%d mutants", len(all))
}
