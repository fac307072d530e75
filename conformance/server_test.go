package conformance_test

import (
	"slices"
	"sync"
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

// whole is what the memory store can do, also behind an Injector.
type whole interface {
	driver.Backend
	driver.Locker
	driver.Queuer
	driver.DelayedUnlocker
	driver.Inspector
	driver.Breaker
	driver.Sharer
	driver.Pinger
	driver.Limiter
	driver.MultiLimiter
	driver.Refunder
	driver.Charger
}

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
		s.claims = append(without(memory.Claims.Without(driver.List), driver.ScopeProcess, driver.ScopeHosts), driver.DurableRestart, driver.TokenRestart)
		h := harness{
			Open:   func(conformance.TB) driver.Backend { b, _ := s.link(0); return b },
			Claims: s.claims,
			Faults: &conformance.Faults{
				Link:    func(conformance.TB) (driver.Backend, conformance.Link) { return s.link(0) },
				Kill:    s.each((*conformance.Injector).Cut),
				Restart: s.each((*conformance.Injector).Heal),
				Pause:   s.each((*conformance.Injector).StallRequests),
				Resume:  s.each((*conformance.Injector).Heal),
				Skew:    func(_ conformance.TB, ahead time.Duration) driver.Backend { b, _ := s.link(ahead); return b },
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
	b, in := conformance.NewInjector(wholeClaimer{s.store.Open().(whole), s.claims})
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
