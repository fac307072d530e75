package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/coordgo/coord"
)

// Mortal is a holder that is killed. It has a reader's share of the key, or one permit. Its successor asks for all of it.
type Mortal struct {
	Key   string
	TTL   time.Duration
	Reads bool
}

// Lock takes what the mortal has.
func (m Mortal) Lock(ctx context.Context, c *coord.Client) (*coord.Lock, error) {
	if m.Reads {
		return c.ReadWrite().Read().Lock(ctx, m.Key, coord.TTL(m.TTL))
	}
	return c.Semaphore(of).Lock(ctx, m.Key, coord.TTL(m.TTL))
}

func (m Mortal) lockAll(ctx context.Context, c *coord.Client) (*coord.Lock, error) {
	if m.Reads {
		return c.ReadWrite().Write().Lock(ctx, m.Key, coord.TTL(m.TTL))
	}
	return c.Semaphore(of).Lock(ctx, m.Key, coord.TTL(m.TTL), coord.Weight(of))
}

// successor waits for what those who died had.
type successor struct {
	scenario *Scenario
	check    *checker
	c        *coord.Client
}

func (s *successor) work(ctx context.Context) {
	for reads := false; ctx.Err() == nil; reads = !reads {
		m := Mortal{Key: fmt.Sprint("chaos/dead/", reads), TTL: s.scenario.TTL, Reads: reads}
		err := s.scenario.Die(ctx, m)
		if err != nil && ctx.Err() != nil {
			return
		}
		if s.check.died(err) {
			s.inherit(ctx, m)
		}
		pause(ctx, s.scenario.TTL)
	}
}

// inherit asks for all of the key until it has it.
func (s *successor) inherit(ctx context.Context, m Mortal) {
	died, lived := time.Now(), s.check.clock.time()
	for {
		waiting, cancel := context.WithTimeout(ctx, 2*s.scenario.TTL)
		call := s.check.clock.watch(waiting, "Inherit")
		l, err := m.lockAll(waiting, s.c)
		s.check.returned(call, err)
		cancel()
		if err != nil && ctx.Err() != nil {
			return
		}
		late := s.check.inherited(m.Key, died, s.check.clock.time()-lived, err == nil)
		if err == nil {
			unlock(ctx, s.check, l)
			return
		}
		if late {
			return
		}
		pause(ctx, tick)
	}
}

// died counts a death. It is none if the process got nothing, as of a store that was broken.
func (c *checker) died(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.rep.Errors["Die: got nothing"]++
		return false
	}
	c.rep.Deaths++
	return true
}

// inherited notes how long the share of a dead holder was kept, as far as is known, and reports whether that is too long. The
// time of breaks does not count, and after one there is as much time as for all other work.
func (c *checker) inherited(key string, died time.Time, took time.Duration, granted bool) (late bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	allowed := c.scenario.TTL + c.scenario.Grace
	broken := c.brokenSince(died)
	if broken > 0 {
		allowed += broken + c.scenario.Settle
	}
	if granted {
		c.rep.Inherited++
		if broken == 0 {
			c.rep.LongestDead = max(c.rep.LongestDead, took)
		}
	}
	if took > allowed {
		c.rep.Overdue = append(c.rep.Overdue, c.at()+fmt.Sprintf("%s: kept %v after its holder died, %v of them in breaks; granted now: %v", key, took, broken, granted))
		return true
	}
	return false
}

// brokenSince is for how long the store has been broken since t. checker.mu is held.
func (c *checker) brokenSince(t time.Time) (sum time.Duration) {
	now := time.Now()
	for _, w := range c.window {
		from, to := w.from, w.to
		if to.IsZero() || to.After(now) {
			to = now
		}
		if from.Before(t) {
			from = t
		}
		sum += max(0, to.Sub(from))
	}
	return sum
}
