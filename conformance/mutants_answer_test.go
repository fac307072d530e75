package conformance_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
)

// Bugs of what a request is answered.
var answerMutants = []mutant{
	{
		name: "denial that debits", bug: "counted first and compared afterwards: who keeps asking is locked out",
		new: on(func(s store) driver.Backend { return costlyDenial{s} }), killers: []string{"LIMIT-05"},
	}, {
		name: "peek that debits", bug: "looking is taking one",
		new: asking(func(asks []driver.Ask) []driver.Ask {
			if len(asks) == 1 && asks[0].N == 0 {
				return []driver.Ask{{Min: 1, N: 1}}
			}
			return asks
		}), killers: []string{"LIMIT-35"},
	}, {
		name: "all or nothing", bug: "a partial grant is refused",
		new: asking(eachAsk(func(a *driver.Ask) { a.Min = a.N })), killers: []string{"LIMIT-06"},
	}, {
		name: "less than was asked for", bug: "a partial grant does not look at the least that is of use",
		new: asking(eachAsk(func(a *driver.Ask) { a.Min = min(a.Min, 1) })), killers: []string{"LIMIT-06"},
	}, {
		name: "partial grant that debits the ask", bug: "what was asked for is debited, and not what was granted (redis_rate)",
		new: on(func(s store) driver.Backend { return fullDebit{s} }), killers: []string{"LIMIT-07"},
	}, {
		name: "partial grant that debits the least", bug: "an ask for one to many is debited one, and granted many",
		new: on(func(s store) driver.Backend { return cheapGrant{s} }), killers: []string{"LIMIT-07", "LIMIT-52"},
	}, {
		name: "asks out of order", bug: "the asks of one call are evaluated from the last to the first",
		new: on(func(s store) driver.Backend { return backwards{s} }), killers: []string{"LIMIT-08", "LIMIT-261"},
	}, {
		name: "denial of a key", bug: "a denial is remembered for the key, and not for the limit",
		new: on(func(s store) driver.Backend { return &deniedKeys{store: s, until: make(map[string]time.Time)} }), killers: []string{"LIMIT-263", "LIMIT-57"},
	}, {
		name: "asks of one call apart", bug: "each ask of a call sees the state before the call",
		new: on(func(s store) driver.Backend { return forgetful{s} }), killers: []string{"LIMIT-08"},
	}, {
		name: "several limits one after the other", bug: "a denial by the second has cost permits of the first",
		new: on(func(s store) driver.Backend { return oneByOne{s} }), killers: []string{"LIMIT-40", "LIMIT-41", "LIMIT-43"},
	}, {
		name: "retry time too short", bug: "callers poll",
		new: answering(func(_ driver.Limit, _ *driver.Taken, g *driver.Granted) { g.RetryAfter /= 2 }), killers: []string{"LIMIT-20"},
	}, {
		name: "retry time too long", bug: "permits are there and nobody comes",
		new: answering(func(_ driver.Limit, _ *driver.Taken, g *driver.Granted) { g.RetryAfter *= 2 }), killers: []string{"LIMIT-20"},
	}, {
		name: "retry time in whole seconds", bug: "rounded up as the HTTP header is (mennanov said 1s for 100ms)",
		new: answering(func(_ driver.Limit, _ *driver.Taken, g *driver.Granted) {
			g.RetryAfter = (g.RetryAfter + time.Second - 1).Truncate(time.Second)
		}), killers: []string{"LIMIT-20"},
	}, {
		name: "reset time that is the period", bug: "ResetAfter is what is configured, and not what is left",
		new: answering(func(l driver.Limit, t *driver.Taken, _ *driver.Granted) { t.ResetAfter = l.Per }), killers: []string{"LIMIT-21", "LIMIT-35"},
	}, {
		name: "permits valid for too long", bug: "ValidFor is the whole period: what is hoarded is spent together with the next",
		new: answering(func(l driver.Limit, _ *driver.Taken, g *driver.Granted) {
			if g.N > 0 {
				g.ValidFor = l.Per
			}
		}), killers: []string{"LIMIT-50", "LIMIT-51"},
	}, {
		name: "retry time of a grant", bug: "the time is computed, although there is nothing to wait for",
		new: answering(func(_ driver.Limit, t *driver.Taken, g *driver.Granted) {
			if g.N > 0 {
				g.RetryAfter = t.ResetAfter
			}
		}), killers: []string{"LIMIT-05", "LIMIT-06"},
	},
}

// asking asks the store for something else.
func asking(instead func([]driver.Ask) []driver.Ask) func() harness {
	return on(func(s store) driver.Backend { return otherAsk{s, instead} })
}

func eachAsk(change func(*driver.Ask)) func([]driver.Ask) []driver.Ask {
	return func(asks []driver.Ask) []driver.Ask {
		asks = slices.Clone(asks)
		for i := range asks {
			change(&asks[i])
		}
		return asks
	}
}

type otherAsk struct {
	store
	instead func([]driver.Ask) []driver.Ask
}

func (b otherAsk) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	return b.store.Take(ctx, key, l, b.instead(asks))
}

// answering spoils what the store has answered.
func answering(spoil func(driver.Limit, *driver.Taken, *driver.Granted)) func() harness {
	return on(func(s store) driver.Backend { return otherAnswer{s, spoil} })
}

type otherAnswer struct {
	store
	spoil func(driver.Limit, *driver.Taken, *driver.Granted)
}

func (b otherAnswer) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	t, err := b.store.Take(ctx, key, l, asks)
	for i := range t.Asks {
		b.spoil(l, &t, &t.Asks[i])
	}
	return t, err
}

type costlyDenial struct{ store }

func (b costlyDenial) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	t, err := b.store.Take(ctx, key, l, asks)
	if err == nil && t.Asks[0].N == 0 && asks[0].N > 0 {
		_, err = b.store.Take(ctx, key, l, []driver.Ask{{Min: 1, N: asks[0].N}})
	}
	return t, err
}

// cheapGrant debits the least of a request.
type cheapGrant struct{ store }

func (b cheapGrant) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	t, err := b.store.Take(ctx, key, l, eachAsk(func(a *driver.Ask) {
		if a.Min > 0 {
			a.N = a.Min
		}
	})(asks))
	for i := range t.Asks {
		if t.Asks[i].N > 0 {
			t.Asks[i].N = asks[i].N
		}
	}
	return t, err
}

// fullDebit takes the rest of a request ahead of time.
type fullDebit struct{ store }

func (b fullDebit) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	t, err := b.store.Take(ctx, key, l, asks)
	if err != nil || len(asks) != 1 || l.Algorithm != driver.TokenBucket {
		return t, err
	}
	if rest := asks[0].N - t.Asks[0].N; t.Asks[0].N > 0 && rest > 0 {
		_, err = b.store.Take(ctx, key, l, []driver.Ask{{Min: rest, N: rest, MaxDelay: time.Hour}})
	}
	return t, err
}

type backwards struct{ store }

func (b backwards) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	asks = slices.Clone(asks)
	slices.Reverse(asks)
	t, err := b.store.Take(ctx, key, l, asks)
	slices.Reverse(t.Asks)
	return t, err
}

// forgetful evaluates every request of a call but the last on a copy of the state.
type forgetful struct{ store }

func (b forgetful) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	first, err := b.store.Take(ctx, key, l, []driver.Ask{{}})
	if err != nil || len(asks) < 2 {
		return b.store.Take(ctx, key, l, asks)
	}
	t, err := b.store.Take(ctx, key, l, asks)
	for i := range t.Asks {
		t.Asks[i].N = 0
		if n := min(asks[i].N, first.Remaining); n >= asks[i].Min {
			t.Asks[i].N = n
		}
	}
	return t, err
}

type oneByOne struct{ store }

func (b oneByOne) TakeAll(ctx context.Context, demands []driver.Demand) ([]driver.Taken, error) {
	var all []driver.Taken
	for _, d := range demands {
		t, err := b.Take(ctx, d.Key, d.Limit, []driver.Ask{{Min: d.N, N: d.N}})
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// deniedKeys denies whatever is asked under a key for a second after a denial.
type deniedKeys struct {
	store
	mu    sync.Mutex
	until map[string]time.Time
}

func (b *deniedKeys) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := driver.Taken{Asks: make([]driver.Granted, len(asks))}
	if left := time.Until(b.until[key]); left > 0 {
		for i := range taken.Asks {
			taken.Asks[i].RetryAfter = left
		}
		return taken, nil
	}
	taken, err := b.store.Take(ctx, key, l, asks)
	for _, g := range taken.Asks {
		if g.RetryAfter > 0 {
			b.until[key] = time.Now().Add(time.Second)
		}
	}
	return taken, err
}
