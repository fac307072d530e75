package permit

import (
	"context"
	"sync"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
)

// source is the store as the rest of a Pool sees it: it remembers what the store denied, and sends requests
// for one limit together.
type source struct {
	Config
	local   bool           // the store is in this process: nothing is remembered, shared or prefetched
	running sync.WaitGroup // the goroutines of the pool
	denied  denials
	refunds refunds
	calls   coalescer
}

func newSource(cfg Config) *source {
	s := &source{Config: cfg, local: cfg.Info.Claims.Has(driver.ScopeProcess)}
	s.denied.clock, s.denied.local = s.Clock, s.local
	s.refunds.cfg, s.refunds.denied = &s.Config, &s.denied
	s.calls.init(&s.Config, &s.refunds, &s.running)
	return s
}

// ask asks the store, and remembers a denial. While the request waits, of may serve it; nil: only the store does.
func (s *source) ask(ctx context.Context, d *driver.Demand, ask driver.Ask, t *driver.TakenOne, of spender) (from Origin, err error) {
	if s.local {
		return FromStore, s.takeOne(ctx, d, ask, t)
	}
	sent, epoch := s.Clock.Now(), s.denied.epoch.Load()
	from, err = s.calls.take(ctx, d, ask, t, of, nil)
	if err == nil && from == FromStore {
		s.learn(d, ask, t, sent, epoch)
	}
	return from, err
}

// learn remembers a denial by the store, and forgets what a grant has made wrong.
func (s *source) learn(d *driver.Demand, ask driver.Ask, t *driver.TakenOne, sent clock.Instant, epoch uint64) {
	switch {
	case ask.N == 0:
	case t.N == 0:
		s.denied.remember(d, ask, t, sent, epoch)
	default:
		s.denied.drop(d.Key)
	}
}

// takeOne makes one call for one request.
func (c *Config) takeOne(ctx context.Context, d *driver.Demand, ask driver.Ask, t *driver.TakenOne) (err error) {
	*t, err = c.Store.TakeOne(ctx, d.Key, d.Limit, ask)
	return err
}
