package postgres

import (
	"sync"
	"time"
)

const (
	// clockLasts is how long an answer tells the server's clock. In that time two clocks drift apart by some milliseconds at most.
	clockLasts = 10 * time.Second
	// setBy is what the wall clock of this machine may differ by from its monotonic one in that time. More means that it was
	// set, or that the machine slept: then nothing is known of the server's clock.
	setBy = 10 * time.Millisecond
)

// clock estimates the server's clock, which cannot be ahead of what an answer says and the time since its request was sent.
// Of the answers of late, that of the fastest request counts. So the estimate is ahead by how long that was on its way:
// most requests that are sent now will be as long on theirs, and the server's clock has reached it when they arrive.
type clock struct {
	mu     sync.Mutex
	server time.Time // as an answer said
	sent   time.Time // its request
}

// now gives the estimate, and whether there is one.
func (c *clock) now() (now time.Time, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := time.Now()
	since := t.Sub(c.sent)
	apart := t.Round(0).Sub(c.sent.Round(0)) - since
	return c.server.Add(since), !c.sent.IsZero() && since < clockLasts && apart.Abs() <= setBy
}

// learn takes in an answer that has just come: if it shows that the estimate is further ahead than that of its request, or
// behind the server's clock, as after that was set, or if the last one is old.
func (c *clock) learn(sent, server time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := func(t time.Time) time.Time { return c.server.Add(t.Sub(c.sent)) }
	now := time.Now()
	if c.sent.IsZero() || now.Sub(c.sent) >= clockLasts || server.Before(at(sent)) || at(now).Before(server) {
		c.server, c.sent = server, sent
	}
}
