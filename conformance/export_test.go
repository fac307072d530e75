package conformance

import (
	"context"
	"iter"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// Electing is h with another Lead, another Watch, or both.
func (h Harness) Electing(lead func(ctx context.Context, l coord.Locker, key string, fn func(context.Context) error, opts ...coord.LockOption) error, watch func(ctx context.Context, c *coord.Client, key string) iter.Seq2[coord.Holder, error]) Harness {
	h.election = election{lead, watch}
	return h
}

// Holding is h with another DoAll and TryDoAll.
func (h Harness) Holding(doAll severalKeys) Harness {
	h.severalKeys = doAll
	return h
}

// Condition is a coord.Cond, or one in its place.
type Condition = condition

// Waiting is h with another Cond.
func (h Harness) Waiting(cond func(c *coord.Client, key string) Condition) Harness {
	h.condition = cond
	return h
}

// Under is h with something between each coord.Client and its driver, as if package coord did it.
func (h Harness) Under(layer func(driver.Backend) driver.Backend) Harness {
	h.under = layer
	return h
}

// HistoryKillers are the cases whose histories find a broken driver.
func HistoryKillers() (ids []string) {
	for _, b := range brokenByHistory {
		ids = append(ids, b.cases...)
	}
	return ids
}
