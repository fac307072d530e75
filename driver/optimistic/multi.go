package optimistic

import (
	"github.com/coordgo/coord/driver"
)

// multi is several demands, all or none.
type multi[V any] struct {
	demands []driver.Demand
	of      []*Cell[V] // of each demand
	taken   []driver.Taken
}

func (m *multi[V]) peeks() bool {
	for _, d := range m.demands {
		if d.N > 0 {
			return false
		}
	}
	return true
}

// on makes every demand, and takes all back if one is denied.
func (m *multi[V]) on(s Store[V], now int64) (changed bool) {
	for i, c := range m.of {
		s.Look(c, m.demands[i].Limit, now)
	}
	before := make(map[*Cell[V]][]byte)
	for _, c := range m.of {
		if before[c] == nil {
			before[c], _ = c.State.MarshalBinary() // its error is always nil
		}
	}
	denied := false
	for i, d := range m.demands {
		c := m.of[i]
		one, dirty := c.State.Take(d.Limit, now, driver.Ask{Min: d.N, N: d.N})
		m.taken[i] = takenOf(one)
		if dirty {
			changed, c.Changed = true, true
			c.Keep = max(c.Keep, c.State.Expiry(d.Limit, now))
		}
		denied = denied || d.N > 0 && one.N == 0
	}
	if !denied {
		return changed
	}
	for c, state := range before {
		c.Changed = false
		_ = c.State.UnmarshalBinary(state) // it was made just now
	}
	for i, d := range m.demands {
		one, _ := m.of[i].State.Take(d.Limit, now, driver.Ask{})
		granted := m.taken[i].Asks[0]
		one.Granted = driver.Granted{RetryAfter: granted.RetryAfter}
		m.taken[i] = takenOf(one)
	}
	return false
}

func takenOf(one driver.TakenOne) driver.Taken {
	return driver.Taken{Asks: []driver.Granted{one.Granted}, Remaining: one.Remaining, ResetAfter: one.ResetAfter}
}
