package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordgo/coord/conformance/internal/history"
	"github.com/coordgo/coord/driver"
)

// account is one key under one limit, and its history.
type account struct {
	*history.Log
	key   string
	limit driver.Limit
}

// accounts begins the histories of some limits.
func (e *env) accounts(model string, limits []driver.Limit, name string) []*account {
	all := make([]*account, len(limits))
	for i, limit := range limits {
		skewed := !e.r.suite.Harness.Claims.Has(driver.ServerClock)
		key := e.key(fmt.Sprintf("%s%v %d", name, limit, i))
		all[i] = &account{e.record(history.Heading{Model: model, Limit: limit, Skewed: skewed}), key, limit}
	}
	return all
}

func histories(accounts []*account) []*history.Log {
	all := make([]*history.Log, len(accounts))
	for i, a := range accounts {
		all[i] = a.Log
	}
	return all
}

// counters are limits that do not move, each twice: the search gets long with the operations of one key
// whose outcome is unknown.
func counters() []driver.Limit {
	const n = 20
	all := still(n)
	three := []driver.Limit{all["sliding window"], all["token bucket"], all["fixed window"]}
	return append(three, three...)
}

// moving are limits that move, slowly beside what a call takes.
func moving() []driver.Limit {
	return []driver.Limit{
		normal(driver.Limit{Rate: 20, Per: time.Second, Burst: 5}),
		normal(driver.Limit{Rate: 10, Per: 400 * time.Millisecond, Algorithm: driver.SlidingWindow}),
		normal(driver.Limit{Rate: 6, Per: 300 * time.Millisecond, Algorithm: driver.FixedWindow}),
	}
}

// taker is a party that takes permits.
type taker struct {
	*party
	e       *env
	client  int
	limiter driver.Limiter
	asked   map[*account][]string // ids that were granted, or may have been
	n       int
}

func (e *env) takers(parties []*party) []*taker {
	all := make([]*taker, len(parties))
	for i, p := range parties {
		all[i] = &taker{party: p, e: e, client: i, limiter: p.backend, asked: make(map[*account][]string)}
	}
	return all
}

// counts gives what lets the parties take, look, give back and begin again.
func (e *env) counts(accounts []*account, parties []*party) (play func(moves int)) {
	all := e.takers(parties)
	move := func(i int, p *party) {
		t, a := all[i], accounts[p.dice.IntN(len(accounts))]
		switch d, ids := p.dice.IntN(100), all[i].asked[a]; {
		case d < 3:
			t.reset(a)
		case d < 35 && len(ids) > 0:
			t.refund(a, ids[p.dice.IntN(len(ids))])
		case d < 45:
			t.take(a, 0)
		default:
			t.take(a, 1+p.dice.IntN(4))
		}
		t.pause(e, t.gap)
	}
	return func(moves int) { e.run(parties, moves, move) }
}

// flows gives what lets the parties take and look while the limits move.
func (e *env) flows(accounts []*account, parties []*party) (play func(moves int)) {
	all := e.takers(parties)
	move := func(i int, p *party) {
		for _, a := range accounts {
			all[i].take(a, p.dice.IntN(4))
		}
		p.pause(e, 60*time.Millisecond)
	}
	return func(moves int) { e.run(parties, moves, move) }
}

func (t *taker) take(a *account, n int) {
	t.n++
	ask := driver.Ask{ID: fmt.Sprintf("ask-%d-%d", t.client, t.n), N: n, Min: n}
	if n > 0 && t.dice.IntN(2) == 0 {
		ask.Min = t.dice.IntN(n)
	}
	o := t.note(t.e, a.Log, history.Operation{Client: t.client, Op: history.OpTake, Key: a.key, Who: ask.ID, Min: ask.Min, N: n}, func(ctx context.Context, o *history.Operation) error {
		taken, err := t.limiter.Take(ctx, a.key, a.limit, []driver.Ask{ask})
		if err != nil {
			return err
		}
		if len(taken.Asks) != 1 {
			return fmt.Errorf("%w: saw %d answers to one ask", driver.ErrInvalid, len(taken.Asks))
		}
		g := taken.Asks[0]
		o.Granted, o.Remaining, o.RetryAfter, o.ResetAfter = g.N, taken.Remaining, int64(g.RetryAfter), int64(taken.ResetAfter)
		return nil
	})
	if o.Granted > 0 || o.Result == history.Unknown && n > 0 {
		t.asked[a] = append(t.asked[a], ask.ID)
	}
}

func (t *taker) refund(a *account, id string) {
	n := 1 + t.dice.IntN(4)
	// A store may be unable to, and says so then before it does anything.
	t.note(t.e, a.Log, history.Operation{Client: t.client, Op: history.OpRefund, Key: a.key, Who: id, N: n}, func(ctx context.Context, _ *history.Operation) error {
		err := t.limiter.Refund(ctx, a.key, a.limit, id, n)
		if errors.Is(err, driver.ErrUnsupported) {
			err = fmt.Errorf("%w: %w", driver.ErrNotSent, err)
		}
		return err
	})
}

func (t *taker) reset(a *account) {
	t.note(t.e, a.Log, history.Operation{Client: t.client, Op: history.OpReset, Key: a.key}, func(ctx context.Context, _ *history.Operation) error {
		return t.limiter.Reset(ctx, a.key, a.limit)
	})
}
