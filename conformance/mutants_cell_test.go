package conformance_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
	"github.com/coordgo/coord/driver/limits"
)

// Bugs of cells that are swapped: of a store with no more than a read and a write.
var cellMutants = []mutant{
	{
		name: "swap that does not compare", bug: "a cell is read and written in two steps", sound: "cells",
		new: shelved(cellBug{twoSteps: true}), killers: []string{"LOCK-03", "LIMIT-01", "LIMIT-17"},
	}, {
		name: "cell dropped early", bug: "the debt of a limit is forgotten at half of its time (throttled)", sound: "cells",
		new: shelved(cellBug{short: true}), killers: []string{"LIMIT-20", "LIMIT-34"},
	}, {
		name: "cell that is folded", bug: "the names of cells are compared without their case", sound: "cells",
		new: shelved(cellBug{fold: true}), killers: []string{"LOCK-80", "LIMIT-33"},
	}, {
		name: "write that is not made", bug: "releases are written to a cache that is never flushed", sound: "cells",
		new: shelved(cellBug{lazy: true}), killers: []string{"LOCK-02", "LOCK-05"},
	}, {
		name: "state ahead for ever", bug: "a client forgets between requests what it has seen: a state that a wrong clock made waits for its time", sound: "clocks",
		new: clocked(cellBug{forgets: true}), killers: []string{"LIMIT-244"},
	}, {
		name: "state of the future is none", bug: "a state that is ahead of the clock is taken for fresh at once: two clocks mint by turns", sound: "clocks",
		new: clocked(cellBug{future: true}), killers: []string{"LIMIT-13"},
	},
}

type cellBug struct{ twoSteps, short, fold, lazy, forgets, future, unpaid bool }

func shelved(bug cellBug) func() harness {
	return func() harness {
		s := &shelf{cells: make(map[cas.Name]value)}
		return harness{
			Open:   func(conformance.TB) driver.Backend { return cas.New(shelfInfo, badClient{client{s}, bug, 0}) },
			Claims: shelfInfo.Claims,
		}
	}
}

// clocked is shelved on the clocks of its clients.
func clocked(bug cellBug) func() harness {
	return func() harness {
		info := shelfInfo
		info.Claims = slices.DeleteFunc(slices.Clone(info.Claims), func(c driver.Claim) bool { return c == driver.ServerClock })
		s := &shelf{cells: make(map[cas.Name]value)}
		skew := func(_ conformance.TB, ahead time.Duration) driver.Backend {
			c := badClient{client{s}, bug, ahead}
			if bug.forgets {
				return unmindful{cas.New(info, c), c}
			}
			return cas.New(info, c)
		}
		return harness{
			Open:   func(tb conformance.TB) driver.Backend { return skew(tb, 0) },
			Claims: info.Claims,
			Faults: &conformance.Faults{Skew: skew},
		}
	}
}

// unmindful makes each request as if it were its first.
type unmindful struct {
	*cas.Backend
	cells cas.Cells
}

func (f unmindful) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	return cas.New(f.Info(), f.cells).Take(ctx, key, l, asks)
}

type badClient struct {
	client
	bug   cellBug
	ahead time.Duration // of its clock, by which limits count
}

func (c badClient) Update(ctx context.Context, n cas.Name, fn cas.Func) error {
	if c.bug.fold {
		n.Key = strings.ToLower(n.Key)
	}
	spoil := func(old []byte, now time.Time) (cas.Change, error) {
		if n.Kind == cas.Limit {
			now = now.Add(c.ahead)
			if c.bug.future && aheadOf(old, now) > time.Minute {
				old = nil
			}
		}
		ch, err := fn(old, now)
		switch {
		case n.Kind != cas.Limit:
		case c.bug.short:
			ch.Keep /= 2
		case c.bug.forgets:
			ch.Keep = 30 * 24 * time.Hour
		}
		if c.bug.unpaid && n.Kind == cas.Limit {
			ch.Value = withoutPaid(ch.Value)
		}
		if c.bug.lazy && bytes.Contains(ch.Value, []byte(" free ")) {
			ch = cas.Change{}
		}
		return ch, err
	}
	if !c.bug.twoSteps {
		return c.client.Update(ctx, n, spoil)
	}
	var seen []byte
	read := func(old []byte, _ time.Time) (cas.Change, error) { seen = old; return cas.Change{}, nil }
	if err := c.client.Update(ctx, n, read); err != nil {
		return err
	}
	time.Sleep(200 * time.Microsecond) // the way to the store and back
	return c.client.Update(ctx, n, func(_ []byte, now time.Time) (cas.Change, error) { return fn(seen, now) })
}

// withoutPaid is a bucket's state as code stored it that did not know charges: see limits.State.
func withoutPaid(state []byte) []byte {
	if len(state) == 0 || state[0] != 2 {
		return state
	}
	at := 2
	for range 9 {
		_, n := binary.Uvarint(state[at:])
		at += n
	}
	_, n := binary.Uvarint(state[at:])
	return slices.Concat([]byte{1}, state[1:at], state[at+n:])
}

// aheadOf is by how much a state, if there is one, is ahead of now.
func aheadOf(state []byte, now time.Time) time.Duration {
	var s limits.State
	if s.UnmarshalBinary(state) != nil {
		return 0
	}
	var look limits.Ahead
	d, _ := look.Look(&s, "", 0, driver.Limit{Rate: 1, Per: time.Second, Algorithm: driver.SlidingWindow}, now.UnixMicro())
	return d
}
