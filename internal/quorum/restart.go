package quorum

import (
	"strings"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
)

// runs tells whether the grants of a member count. One that has restarted may have granted, before that, what it has
// forgotten: it has no vote until all such leases are over.
type runs struct {
	mu    sync.Mutex
	known string    // the run of the last grant
	seen  time.Time // when the last grant came
	from  time.Time // its grants count from then on
}

// countFrom is from when on grants like g count; longest is the longest lease that there can be. The age of a run is the
// member's word, if this client has seen no grant of an earlier one for so long. Else the change of the run says that it
// restarted, by no clock of the member's.
func (r *runs) countFrom(g driver.Grant, longest time.Duration) time.Time {
	if g.Run == "" {
		return time.Time{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if g.Run != r.known {
		r.from = now.Add(longest)
		if now.Sub(r.seen) > longest { // or never: nothing that this client knows of is left of the run before
			r.from = r.from.Add(-g.Age)
		}
		r.known = g.Run
	}
	r.seen = now
	return r.from
}

// server names the server that the last grant was of; "" if there was none that says it.
func (r *runs) server() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	name, _, _ := strings.Cut(r.known, ".")
	return name
}
