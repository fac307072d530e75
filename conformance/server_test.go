package conformance_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
)

// A store in memory with a link to each of its clients: what the suite says of networks, restarts and pauses, in fake time.
func TestServer(t *testing.T) {
	conformance.RunInFakeTime(t, func(conformance.TB) conformance.Harness { return served(nil, nil)() })
}

type whole = driver.Backend

// server is a store whose clients are each at the end of a link. It keeps what it has over a restart.
type server struct {
	store  *memory.Store
	claims driver.Claims
	bug    func(l *layer, ahead time.Duration) // of the driver; nil: none

	mu    sync.Mutex
	links []*conformance.Injector
}

// served makes a harness of a server. Its driver, and what is between each coord.Client and the driver, may have bugs.
func served(bug func(l *layer, ahead time.Duration), client func(*layer)) func() harness {
	return func() harness {
		s := &server{store: memory.NewStore(), bug: bug}
		s.claims = append(without(memory.Claims.Without(driver.List), driver.ScopeProcess, driver.ScopeHosts), driver.DurableRestart, driver.TokenRestart, driver.DurableFailover, driver.TokenFailover)
		h := harness{
			Open:   func(conformance.TB) driver.Backend { b, _ := s.link(0); return b },
			Claims: s.claims,
			Faults: &conformance.Faults{
				Link:     func(conformance.TB) (driver.Backend, conformance.Link) { return s.link(0) },
				Kill:     s.each((*conformance.Injector).Cut),
				Restart:  s.each((*conformance.Injector).Heal),
				Pause:    s.each((*conformance.Injector).StallRequests),
				Resume:   s.each((*conformance.Injector).Heal),
				Failover: func(conformance.TB) { s.failOver() },
				Skew:     func(_ conformance.TB, ahead time.Duration) driver.Backend { b, _ := s.link(ahead); return b },
			},
		}
		if client != nil {
			h = h.Under(func(b driver.Backend) driver.Backend { return layered(b, client) })
		}
		return h
	}
}

// link opens a client whose clock is ahead, and gives its link. Only a driver with a bug looks at that clock.
func (s *server) link(ahead time.Duration) (driver.Backend, *conformance.Injector) {
	b, in := conformance.NewInjector(wholeClaimer{s.store.Open(), s.claims})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links = append(s.links, in)
	if s.bug == nil {
		return b, in
	}
	return layered(b, func(l *layer) { s.bug(l, ahead) }), in
}

// each does something to all links.
func (s *server) each(do func(*conformance.Injector)) func(conformance.TB) {
	return func(conformance.TB) {
		s.mu.Lock()
		links := slices.Clone(s.links)
		s.mu.Unlock()
		for _, in := range links {
			do(in)
		}
	}
}

// failOver is that of a cluster: every second client has its server replaced, and hears from the next one after a while.
func (s *server) failOver() {
	odd := 0
	s.each(func(in *conformance.Injector) {
		if odd++; odd%2 == 1 {
			in.StallRequests()
		}
	})(nil)
	time.Sleep(2 * time.Second)
	s.each((*conformance.Injector).Reset)(nil)
	s.each((*conformance.Injector).Heal)(nil)
}

// wholeClaimer has the claims that it is given.
type wholeClaimer struct {
	whole
	claims driver.Claims
}

func (c wholeClaimer) Info() driver.Info {
	info := c.whole.Info()
	info.Claims = c.claims
	return info
}

// A store that does not claim to outlive a failover may lose in it what it had, and has to be sound when it is over.
func TestFailoverOfAForgetfulStore(t *testing.T) {
	for outcome, granted := range map[conformance.Outcome]func(key string) bool{
		conformance.Pass: func(key string) bool { return !strings.Contains(key, "after") },
		conformance.Fail: func(string) bool { return true },
	} {
		forgetful := replaced(func(l *layer, failed *atomic.Bool) {
			l.take = func(ctx context.Context, key string, limit driver.Limit, asks []driver.Ask) (driver.Taken, error) {
				t, err := l.whole.Take(ctx, key, limit, asks)
				if err == nil && t.Asks[0].N == 0 && failed.Load() && granted(key) {
					t.Asks[0].N = asks[0].N
				}
				return t, err
			}
		})
		unclaimed := func() harness {
			h := forgetful()
			h.Claims = h.Claims.Without(driver.DurableFailover)
			return h
		}
		for _, res := range examine(t, unclaimed, []string{"LIMIT-206"}, 1).Results {
			if res.Outcome != outcome {
				t.Errorf("%s of %s, want %s: %v", res.Outcome, res.ID, outcome, res.Messages)
			}
		}
	}
}
