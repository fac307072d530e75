package permit

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/errs"
)

// CheckAll refuses demands that can never be met together, and says which is to blame.
func CheckAll(demands []driver.Demand) (at int, err error) {
	m := all{demands: demands}
	for i := range demands {
		if other := m.rival(i); other != nil {
			return i, fmt.Errorf("%w: %v and %v count on one account of a key: want one of them", driver.ErrInvalid, other.Limit, demands[i].Limit)
		}
	}
	for _, sum := range m.sums() {
		if most := sum.Limit.Max(); sum.N > most {
			return sum.of[0], fmt.Errorf("%w: %d asked of %v in %d demands, which grants at most %d", errs.ErrExceedsBurst, sum.N, sum.Limit, len(sum.of), most)
		}
	}
	return 0, nil
}

// TakeAll takes the permits of every demand, or none of any. The answer to demand i goes into result(i),
// which is zero.
func (p *Pool) TakeAll(ctx context.Context, demands []driver.Demand, result func(i int) *Result) (Origin, error) {
	m := &all{source: p.source, demands: demands, result: result}
	switch {
	case m.knownDenied():
		return FromMemory, nil
	case p.Store.TakesAll:
		return FromStore, m.takeAtOnce(ctx)
	}
	return FromStore, m.takeInTurn(ctx)
}

// all is one TakeAll.
type all struct {
	*source
	demands []driver.Demand
	result  func(i int) *Result
}

// rival is a demand before the i-th that counts on its account under another limit: that
// the permits of both fit together, neither of the limits says.
func (m *all) rival(i int) *driver.Demand {
	d := &m.demands[i]
	for j := range m.demands[:i] {
		if o := &m.demands[j]; o.Key == d.Key && o.Limit != d.Limit && o.Limit.Shares(d.Limit) {
			return o
		}
	}
	return nil
}

// summed are the demands of one limit under one key.
type summed struct {
	driver.Demand
	of []int  // in the demands
	id string // of the request, while they are taken in turn
}

func (m *all) sums() []summed {
	sums := make([]summed, 0, len(m.demands))
	for i, d := range m.demands {
		at := slices.IndexFunc(sums, func(s summed) bool { return s.Key == d.Key && s.Limit == d.Limit })
		if at < 0 {
			sums = append(sums, summed{Demand: d, of: []int{i}})
			continue
		}
		sums[at].N += min(d.N, math.MaxInt-sums[at].N) // the largest int is more than any limit grants
		sums[at].of = append(sums[at].of, i)
	}
	return sums
}

// knownDenied answers from memory if one demand is certain to be denied, and tells of all that are.
func (m *all) knownDenied() (denied bool) {
	memory := &m.denied
	if memory.any.Load() == 0 {
		return false
	}
	for i := range m.demands {
		d := &m.demands[i]
		known, ok := memory.lookup(d, driver.Ask{Min: d.N, N: d.N})
		if !ok {
			continue
		}
		if !denied {
			m.unseen()
		}
		*m.result(i), denied = known, true
	}
	return denied
}

// unseen makes every result a denial by another demand.
func (m *all) unseen() {
	for i := range m.demands {
		*m.result(i) = Result{Remaining: -1}
	}
}

// takeAtOnce is one atomic step at the store.
func (m *all) takeAtOnce(ctx context.Context) error {
	sent, epoch := m.Clock.Now(), m.denied.epoch.Load()
	taken, err := m.Store.TakeAll(ctx, m.demands)
	if err != nil {
		return err
	}
	if len(taken) != len(m.demands) || slices.ContainsFunc(taken, func(t driver.Taken) bool { return len(t.Asks) != 1 }) {
		return fmt.Errorf("%s answered %d demands of %d", m.Info.Name, len(taken), len(m.demands))
	}
	granted := m.granted(taken)
	for i, t := range taken {
		r := m.result(i)
		r.Allowed, r.Remaining, r.ResetAfter = granted, t.Remaining, t.ResetAfter
		switch n := m.demands[i].N; {
		case granted:
			r.Granted = n
		case n > 0: // a demand for nothing is never in the way
			r.RetryAfter = t.Asks[0].RetryAfter
		}
	}
	if !m.local {
		m.learnAll(taken, granted, sent, epoch)
	}
	return nil
}

// granted reports whether every demand was met.
func (m *all) granted(taken []driver.Taken) bool {
	for i, t := range taken {
		if t.Asks[0].N != m.demands[i].N {
			return false
		}
	}
	return true
}

// learnAll keeps the cache of denials right. What stood in the way only as a sum says nothing
// of a single demand.
func (m *all) learnAll(taken []driver.Taken, granted bool, sent clock.Instant, epoch uint64) {
	denied := &m.denied
	for _, sum := range m.sums() {
		one := taken[sum.of[0]]
		switch {
		case granted:
			denied.drop(sum.Key)
		case len(sum.of) == 1 && sum.N > 0 && one.Asks[0].RetryAfter > 0:
			t := driver.TakenOne{Granted: one.Asks[0], Remaining: one.Remaining, ResetAfter: one.ResetAfter}
			denied.remember(&sum.Demand, driver.Ask{Min: sum.N, N: sum.N}, &t, sent, epoch)
		}
	}
}

// takeInTurn takes one limit after the other: windows first, which give back all, and the
// tightest first, for that is the one that denies most often. On a denial, or an error, what
// was taken is given back.
func (m *all) takeInTurn(ctx context.Context) error {
	sums := m.sums()
	slices.SortStableFunc(sums, func(a, b summed) int {
		return cmp.Or(cmp.Compare(a.keeps(), b.keeps()), cmp.Compare(a.room(), b.room()))
	})
	if err := m.shortFirst(ctx, sums); err != nil {
		return err
	}
	for i := range sums {
		sum := &sums[i]
		sum.id = m.NewID()
		var t driver.TakenOne
		_, err := m.ask(ctx, &sum.Demand, driver.Ask{ID: sum.id, Min: sum.N, N: sum.N}, &t, nil)
		if err == nil && t.N == sum.N {
			m.grant(sum, &t)
			continue
		}
		m.giveBack(ctx, sums[:i])
		if err != nil {
			return err
		}
		m.unseen()
		for _, at := range sum.of {
			*m.result(at) = Result{Remaining: t.Remaining, RetryAfter: t.RetryAfter, ResetAfter: t.ResetAfter}
		}
		return nil
	}
	return nil
}

// shortFirst looks at token buckets before one of several is taken, and puts one that has too little
// before all other limits. Buckets give nothing back: without that, users over a limit of their
// own would use up the one that they share.
func (m *all) shortFirst(ctx context.Context, sums []summed) error {
	first := slices.IndexFunc(sums, func(s summed) bool { return s.keeps() == 1 })
	if first < 0 || first == len(sums)-1 {
		return nil
	}
	for i := first; i < len(sums); i++ {
		var t driver.TakenOne
		if _, err := m.ask(ctx, &sums[i].Demand, driver.Ask{}, &t, nil); err != nil {
			return err
		}
		if short := sums[i]; t.Remaining < short.N {
			copy(sums[1:], sums[:i])
			sums[0] = short
			return nil
		}
	}
	return nil
}

// keeps is 1 for a token bucket, which keeps what was taken, and 0 for a window.
func (s *summed) keeps() int {
	if s.Limit.Algorithm == driver.TokenBucket {
		return 1
	}
	return 0
}

// room is how many such demands the limit admits in an hour, and at once: the less, the
// tighter.
func (s *summed) room() float64 {
	if s.N == 0 {
		return float64(s.Limit.Max())
	}
	hourly := float64(s.Limit.Rate) * float64(time.Hour) / float64(s.Limit.Per)
	return min(hourly, float64(s.Limit.Max())) / float64(s.N)
}

func (m *all) grant(sum *summed, t *driver.TakenOne) {
	for _, at := range sum.of {
		*m.result(at) = Result{Allowed: true, Granted: m.demands[at].N, Remaining: t.Remaining, ResetAfter: t.ResetAfter}
	}
}

// giveBack gives back what was taken. It waits for that, so that what comes next finds the permits, unless ctx ends
// or the store is slow.
func (m *all) giveBack(ctx context.Context, sums []summed) {
	if len(sums) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, refundTry)
	defer cancel()
	var giving sync.WaitGroup
	for _, sum := range sums {
		if sum.N > 0 {
			giving.Add(1)
			m.refunds.start(limitKey{sum.Key, sum.Limit}, sum.id, sum.N, giving.Done)
		}
	}
	awaitAll(ctx, &giving)
}
