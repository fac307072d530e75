package zookeeper

import (
	"errors"
	"os"
	"time"
)

// maxSilence is for how long a server may leave a request, or a ping, without any answer. The client library
// waits for two thirds of the session from the last answer. That leaves no time to renew by another server: in an
// ensemble a lock is certain for three eighths of the session at first, and then for half of it or more.
//
// After a sixth of the session there is as much left for the other server. It is a second at least, if that is
// not more than half of the session: a collection of garbage or a slow disk stops a healthy server for as long.
func maxSilence(session time.Duration) time.Duration {
	return max(session/6, min(session/2, time.Second))
}

// SetReadDeadline notes what the library wants, and bounds it.
func (c *wireConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = t
	return c.bound()
}

// bound sets the read deadline: the library's, or ours if that comes first. c.mu is held.
func (c *wireConn) bound() error {
	t, limit := c.wanted, c.limit
	if c.shaken {
		limit = c.silent
	}
	if !limit.IsZero() && (t.IsZero() || t.After(limit)) {
		t = limit
	}
	return c.Conn.SetReadDeadline(t)
}

// awaits notes that something was sent that has an answer. An error of bound is the connection's, which the next
// call on it finds too. c.mu is held.
func (c *wireConn) awaits() {
	if c.shaken && c.silent.IsZero() {
		c.silent = time.Now().Add(maxSilence(c.w.timeout()))
		_ = c.bound()
	}
}

// heard notes that something came: the server is not silent. What else was sent before is not timed until the
// next request. c.mu is held.
func (c *wireConn) heard() {
	if !c.silent.IsZero() {
		c.silent = time.Time{}
		_ = c.bound()
	}
}

// giveUp closes the connection when a read timed out: a write that a silent server does not take would keep
// the library from noticing.
func (c *wireConn) giveUp(err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.w.mu.Lock()
		c.w.passOver()
		c.w.mu.Unlock()
		_ = c.Close()
	}
}
