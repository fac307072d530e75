package conformance

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
)

type whole = driver.Backend

// byTake makes TakeOne of Take, which broken drivers have of their own.
type byTake struct{ whole }

func (b byTake) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	return driver.One(b.Take(ctx, key, l, []driver.Ask{a}))
}

// Broken drivers, each with a bug that shows when several clients meet, or when replies are lost, and the cases
// whose histories must tell.
var brokenByHistory = []struct {
	name  string
	wrap  func(whole, *brokenStore) driver.Backend
	cases []string
}{
	{"release without comparing the owner", func(w whole, _ *brokenStore) driver.Backend { return freeForAll{w} }, []string{"LOCK-201", "LOCK-202"}},
	{"check and then set", func(w whole, s *brokenStore) driver.Backend { return checkThenSet{w, s} }, []string{"LOCK-201"}},
	{"token that is repeated", func(w whole, _ *brokenStore) driver.Backend { return coarseToken{w} }, []string{"LOCK-201", "LOCK-211"}},
	{"token of the client's own count", func(w whole, _ *brokenStore) driver.Backend { return &ownCount{whole: w} }, []string{"LOCK-201", "LOCK-211"}},
	{"renewal that creates", func(w whole, _ *brokenStore) driver.Backend { return createRenew{w} }, []string{"LOCK-201"}},
	{"lease a quarter as long as it says", func(w whole, _ *brokenStore) driver.Backend { return longTale{w} }, []string{"LOCK-201", "LOCK-211"}},
	{"grant told as a refusal", func(w whole, _ *brokenStore) driver.Backend { return &liar{whole: w} }, []string{"LOCK-201"}},
	{"limit off by one", func(w whole, _ *brokenStore) driver.Backend { return oneMore{w} }, []string{"LIMIT-201", "LIMIT-202", "LIMIT-211", "LIMIT-212"}},
	{"limit read and then written", func(w whole, _ *brokenStore) driver.Backend { return readThenTake{w} }, []string{"LIMIT-201"}},
	{"refund given twice", func(w whole, s *brokenStore) driver.Backend { return twiceBack{w, s} }, []string{"LIMIT-201"}},
	{"denial that debits", func(w whole, _ *brokenStore) driver.Backend { return dearDenial{w} }, []string{"LIMIT-201"}},
	{"window half as long", func(w whole, _ *brokenStore) driver.Backend { return halfPeriod{w} }, []string{"LIMIT-211", "LIMIT-212"}},
}

// historySeeds is how many runs a case has, each with a seed of its own, to find a bug that not every run shows.
const historySeeds = 20

func TestHistoriesFindBrokenDrivers(t *testing.T) {
	t.Setenv(HistoriesEnv, t.TempDir())
	for _, b := range brokenByHistory {
		t.Run(b.name, func(t *testing.T) {
			left := b.cases
			for seed := uint64(1); seed <= historySeeds && len(left) > 0; seed++ {
				left = unfound(t, b.wrap, left, seed)
				t.Logf("seed %d: not found by %v", seed, left)
			}
			for _, id := range left {
				t.Errorf("%s passed with %d seeds, want a failure", id, historySeeds)
			}
		})
	}
}

// The drivers die of their bugs: the store that they are made of passes all histories.
func TestHistoriesOfASoundDriver(t *testing.T) {
	t.Setenv(HistoriesEnv, t.TempDir())
	var all []string
	for _, c := range historyCases() {
		all = append(all, c.ID)
	}
	sound := func(w whole, _ *brokenStore) driver.Backend { return w }
	for _, res := range runHistories(t, sound, all, 1) {
		if res.Outcome == Fail {
			t.Errorf("a driver without a bug fails: %s", res.explain(""))
		}
	}
}

// runHistories runs cases once, in fake time.
func runHistories(t *testing.T, wrap func(whole, *brokenStore) driver.Backend, ids []string, seed uint64) (results []Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		shared, extra := memory.NewStore(), &brokenStore{}
		s := &Suite{
			Harness: Harness{
				Open:     func(TB) driver.Backend { return byTake{wrap(shared.Open(), extra)} },
				Claims:   memory.Claims,
				FakeTime: true,
			},
			Only: func(c Case) bool { return slices.Contains(ids, c.ID) },
			Seed: seed,
		}
		r, err := s.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		results = r.Results
	})
	return results
}

// unfound runs cases once, and gives those that have not found the bug.
func unfound(t *testing.T, wrap func(whole, *brokenStore) driver.Backend, ids []string, seed uint64) (left []string) {
	t.Helper()
	for _, res := range runHistories(t, wrap, ids, seed) {
		switch said := res.explain(""); {
		case res.Outcome != Fail:
			left = append(left, res.ID)
		case !strings.Contains(said, "no order explains"):
			t.Errorf("%s fails otherwise than by its history: %s", res.FullName(), said)
		}
	}
	return left
}

// brokenStore is what the clients of a broken driver share beside the store.
type brokenStore struct {
	mu   sync.Mutex
	seen map[string]string
}

type freeForAll struct{ whole }

func (b freeForAll) Unlock(ctx context.Context, key, id string) error {
	h, err := b.Inspect(ctx, key)
	if err != nil {
		return err
	}
	return b.whole.Unlock(ctx, key, h.ID)
}

// checkThenSet finds the key free, lets others find the same, and takes it from whoever was first.
type checkThenSet struct {
	whole
	s *brokenStore
}

func (b checkThenSet) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	h, err := b.Inspect(ctx, key)
	if free := errors.Is(err, driver.ErrNotHeld); !free && h.ID != r.ID {
		return driver.Grant{}, driver.ErrLocked
	}
	rest(ctx, 3*time.Millisecond)
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	if h, err := b.Inspect(ctx, key); err == nil && h.ID != r.ID {
		if err := b.Unlock(ctx, key, h.ID); err != nil && !errors.Is(err, driver.ErrNotHeld) {
			return driver.Grant{}, err
		}
	}
	return b.whole.TryLock(ctx, key, r)
}

// coarseToken seeds tokens with a clock of which it keeps tenths of a second.
type coarseToken struct{ whole }

func (b coarseToken) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := b.whole.TryLock(ctx, key, r)
	g.Token = g.Token/100_000 + 1
	return g, err
}

func (b coarseToken) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := b.whole.Renew(ctx, key, r)
	g.Token = g.Token/100_000 + 1
	return g, err
}

// ownCount numbers the grants that it has seen itself.
type ownCount struct {
	whole
	mu     sync.Mutex
	n      int64
	tokens map[string]int64
}

func (b *ownCount) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := b.whole.TryLock(ctx, key, r)
	if err == nil {
		g.Token = b.token(r.ID)
	}
	return g, err
}

func (b *ownCount) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := b.whole.Renew(ctx, key, r)
	if err == nil {
		g.Token = b.token(r.ID)
	}
	return g, err
}

func (b *ownCount) token(id string) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tokens == nil {
		b.tokens = make(map[string]int64)
	}
	if b.tokens[id] == 0 {
		b.n++
		b.tokens[id] = b.n
	}
	return b.tokens[id]
}

type createRenew struct{ whole }

func (b createRenew) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return b.TryLock(ctx, key, r)
}

// longTale says that leases are four times as long as they are, so that renewals come too late.
type longTale struct{ whole }

func (b longTale) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := b.whole.TryLock(ctx, key, r)
	g.TTL *= 4
	return g, err
}

func (b longTale) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := b.whole.Renew(ctx, key, r)
	g.TTL *= 4
	return g, err
}

// liar answers now and then that it was refused where it was granted.
type liar struct {
	whole
	mu sync.Mutex
	n  int
}

func (b *liar) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := b.whole.TryLock(ctx, key, r)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n++; err == nil && b.n%5 == 0 {
		return driver.Grant{}, driver.ErrLocked
	}
	return g, err
}

type oneMore struct{ whole }

func (b oneMore) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	if l.Algorithm == driver.TokenBucket {
		l.Burst++
	} else {
		l.Rate++
	}
	return b.whole.Take(ctx, key, l, asks)
}

// readThenTake decides by what it has read a moment ago.
type readThenTake struct{ whole }

func (b readThenTake) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	before, err := b.whole.Take(ctx, key, l, nil)
	if err != nil || asks[0].N == 0 || before.Remaining < asks[0].N {
		return b.whole.Take(ctx, key, l, asks)
	}
	rest(ctx, 2*time.Millisecond)
	t, err := b.whole.Take(ctx, key, l, []driver.Ask{{ID: asks[0].ID, N: asks[0].N}})
	if err == nil {
		t.Asks[0] = driver.Granted{N: asks[0].N}
		t.Remaining = before.Remaining - asks[0].N
	}
	return t, err
}

type twiceBack struct {
	whole
	s *brokenStore
}

func (b twiceBack) Refund(ctx context.Context, key string, l driver.Limit, id string, n int) error {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	if b.s.seen == nil {
		b.s.seen = make(map[string]string)
	}
	if b.s.seen[id] != "" { // once more, by way of another
		id = b.s.seen[id]
	} else {
		other := id + "-again"
		if _, err := b.Take(ctx, key, l, []driver.Ask{{ID: other, Min: n, N: n}}); err != nil {
			return err
		}
		b.s.seen[id] = other
	}
	return b.whole.Refund(ctx, key, l, id, n)
}

type dearDenial struct{ whole }

func (b dearDenial) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	t, err := b.whole.Take(ctx, key, l, asks)
	if err == nil && t.Asks[0].N == 0 && asks[0].N > 0 {
		_, err = b.whole.Take(ctx, key, l, []driver.Ask{{N: asks[0].N}})
	}
	return t, err
}

type halfPeriod struct{ whole }

func (b halfPeriod) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	if l.Per < time.Minute {
		l.Per /= 2
	}
	return b.whole.Take(ctx, key, l, asks)
}
