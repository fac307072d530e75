package permit

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
)

// denials remembers what the store denied, and denies it again without asking.
// That is exact: until the retry time nobody can have made room, for debt only grows
// while it is there. Only a reset, a refund or a changed limit does, so an entry
// lives at most maxDenial: another client's reset shows within that time.
type denials struct {
	clock *clock.Clock
	local bool          // nothing is remembered
	epoch atomic.Uint64 // counts forget, so that a denial from before it is not remembered after
	any   atomic.Int64  // entries, so that an empty cache costs one load
	byKey sync.Map      // key to *[]denial, which is not changed but replaced; read without a lock
	mu    sync.Mutex    // guards what follows, and changes of byKey
	swept time.Duration // when the last sweep was
}

type denial struct {
	limit driver.Limit
	min   int // the least that was asked: what decides
	until time.Duration
	t     driver.TakenOne
	told  time.Duration // when the answer had come: its times count from then, at the latest
}

const (
	maxDenial  = time.Second
	maxDenials = 10_000
)

// lookup answers from the cache.
func (ds *denials) lookup(d *driver.Demand, ask driver.Ask) (r Result, ok bool) {
	if ask.N == 0 {
		return r, false
	}
	known := ds.of(d.Key)
	if len(known) == 0 {
		return r, false
	}
	now := ds.clock.Mono()
	for i := range known {
		e := &known[i]
		if e.min == ask.Min && e.limit == d.Limit && now < e.until {
			r.set(&e.t, ask.N)
			age := now - e.told
			r.RetryAfter -= age
			r.ResetAfter = max(r.ResetAfter-age, 0)
			return r, true
		}
	}
	return r, false
}

// of is what is known of key.
func (ds *denials) of(key string) []denial {
	known, ok := ds.byKey.Load(key)
	if !ok {
		return nil
	}
	return *known.(*[]denial)
}

// remember keeps a denial whose call was sent at sent.
func (ds *denials) remember(d *driver.Demand, ask driver.Ask, t *driver.TakenOne, sent clock.Instant, epoch uint64) {
	until := sent.Mono + min(t.RetryAfter, maxDenial)
	now := ds.clock.Mono()
	if until <= now {
		return
	}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if ds.epoch.Load() != epoch {
		return
	}
	if ds.any.Load() >= maxDenials && now-ds.swept >= maxDenial/10 {
		ds.sweep(now)
	}
	if ds.any.Load() >= maxDenials {
		return
	}
	was := ds.of(d.Key)
	list := make([]denial, 0, len(was)+1)
	for _, e := range was {
		if now < e.until && (e.min != ask.Min || e.limit != d.Limit) {
			list = append(list, e)
		}
	}
	list = append(list, denial{limit: d.Limit, min: ask.Min, until: until, t: *t, told: now})
	ds.any.Add(int64(len(list) - len(was)))
	ds.byKey.Store(d.Key, &list)
}

// sweep drops what is over. denials.mu is held.
func (ds *denials) sweep(now time.Duration) {
	ds.swept = now
	n := 0
	ds.byKey.Range(func(key, known any) bool {
		live := slices.DeleteFunc(slices.Clone(*known.(*[]denial)), func(e denial) bool { return e.until <= now })
		if len(live) == 0 {
			ds.byKey.Delete(key)
		} else {
			ds.byKey.Store(key, &live)
		}
		n += len(live)
		return true
	})
	ds.any.Store(int64(n))
}

// forget drops what is known of key after room was made under it, and what is
// being asked of it now.
func (ds *denials) forget(key string) {
	if ds.local {
		return
	}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	ds.epoch.Add(1)
	ds.remove(key)
}

// drop drops what is known of key after more was taken under it, which leaves
// denials right but their times too short.
func (ds *denials) drop(key string) {
	if ds.any.Load() == 0 {
		return
	}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	ds.remove(key)
}

// remove takes out the entries of key. denials.mu is held.
func (ds *denials) remove(key string) {
	if known, ok := ds.byKey.LoadAndDelete(key); ok {
		ds.any.Add(int64(-len(*known.(*[]denial))))
	}
}
