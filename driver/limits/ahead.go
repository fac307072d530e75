package limits

import (
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
)

// Ahead watches for states that are ahead of a client's clock. It is for a store that counts on the clocks of its
// clients, of which one may be wrong. The zero Ahead is ready. It is safe for concurrent use.
type Ahead struct {
	mu     sync.Mutex
	warned time.Time
	far    map[string]sighting // states that a wrong clock has made, by name
}

// sighting is since when a client knows a state as it is.
type sighting struct {
	version uint64
	since   time.Time
}

// maxSightings bounds what an Ahead remembers. Beyond it, it begins again, and the states wait longer.
const maxSightings = 1000

// Look is called before a decision on s, the state of l that the store has under name in this version. It says by
// how much s is ahead of now, and whether to warn of it: that is so once a minute, if it is more than a minute.
//
// A state that stands still, because a wrong clock has made it, is made fresh when this client has known that
// version for so long that all that was granted is back. The decision must be written only if the store still has
// that version.
func (a *Ahead) Look(s *State, name string, version uint64, l driver.Limit, now int64) (ahead time.Duration, warn bool) {
	if s.last-clamp(now) <= maxLag {
		return 0, false
	}
	return a.look(s, name, version, l, now)
}

func (a *Ahead) look(s *State, name string, version uint64, l driver.Limit, now int64) (ahead time.Duration, warn bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := time.Now()
	warn = a.warn(at)
	ahead = micros(s.last - clamp(now))
	if _, _, far := s.ratchet(now, wholeOf(&l)); !far {
		return ahead, warn
	}
	seen, ok := a.far[name]
	switch {
	case !ok || seen.version != version:
		if a.far == nil || len(a.far) >= maxSightings {
			a.far = make(map[string]sighting)
		}
		a.far[name] = sighting{version, at}
	case at.Sub(seen.since) >= s.Expiry(l, now):
		*s = State{}
	}
	return ahead, warn
}

// Warn says whether to warn of another clock that is ahead, by whatever it was seen: once a minute, together with Look.
func (a *Ahead) Warn() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.warn(time.Now())
}

func (a *Ahead) warn(at time.Time) bool {
	if !a.warned.IsZero() && at.Sub(a.warned) <= time.Minute {
		return false
	}
	a.warned = at
	return true
}

// wholeOf is how long a whole limit takes to come back.
func wholeOf(l *driver.Limit) int64 {
	if l.Algorithm == driver.TokenBucket {
		rate, unit := l.Refill()
		return ceilDiv(int64(l.Burst)*unit, rate)
	}
	return gridOf(l).leaves(0)
}
