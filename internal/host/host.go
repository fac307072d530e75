// Package host is what a client has of the machine that it runs on: two clocks, and chance. A simulation brings others.
package host

import (
	"math/rand/v2"
	"time"

	"github.com/coordgo/coord/internal/clock"
)

// Host is one client's.
type Host struct {
	Clock *clock.Clock
	// Jitter gives a duration from 0 to d, and less than d, for a pause of a call on key. d is above 0.
	Jitter func(key string, d time.Duration) time.Duration
}

// Simulated is a backend that brings the host of its client.
type Simulated interface{ Host() Host }

// Of gives the host of the client of backend: a new one, unless the backend brings one.
func Of(backend any) Host {
	if s, ok := backend.(Simulated); ok {
		return s.Host()
	}
	return Host{Clock: clock.New(), Jitter: Random}
}

// Random is the Jitter of a machine.
func Random(_ string, d time.Duration) time.Duration { return rand.N(d) }
