package conformance_test

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
)

// Bugs of cells that are swapped: of a store with no more than a read and a write.
var cellMutants = []mutant{
	{
		name: "swap that does not compare", bug: "a cell is read and written in two steps", sound: "cells",
		new: shelved(cellBug{twoSteps: true}), killers: []string{"LOCK-03", "LIMIT-01"},
	}, {
		name: "cell dropped early", bug: "the debt of a limit is forgotten at half of its time (throttled)", sound: "cells",
		new: shelved(cellBug{short: true}), killers: []string{"LIMIT-20"},
	}, {
		name: "cell that is folded", bug: "the names of cells are compared without their case", sound: "cells",
		new: shelved(cellBug{fold: true}), killers: []string{"LOCK-80", "LIMIT-33"},
	}, {
		name: "write that is not made", bug: "releases are written to a cache that is never flushed", sound: "cells",
		new: shelved(cellBug{lazy: true}), killers: []string{"LOCK-02", "LOCK-05"},
	},
}

type cellBug struct{ twoSteps, short, fold, lazy bool }

func shelved(bug cellBug) func() harness {
	return func() harness {
		s := &shelf{cells: make(map[cas.Name]value)}
		return harness{
			Open:   func(conformance.TB) driver.Backend { return cas.New(shelfInfo, badClient{client{s}, bug}) },
			Claims: shelfInfo.Claims,
		}
	}
}

type badClient struct {
	client
	bug cellBug
}

func (c badClient) Update(ctx context.Context, n cas.Name, fn cas.Func) error {
	if c.bug.fold {
		n.Key = strings.ToLower(n.Key)
	}
	spoil := func(old []byte, now time.Time) (cas.Change, error) {
		ch, err := fn(old, now)
		if c.bug.short && n.Kind == cas.Limit {
			ch.Keep /= 2
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
