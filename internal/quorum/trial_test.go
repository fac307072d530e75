package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/quorum"
)

// trial is one run of a scenario: servers, and clients of the quorum that they make.
type trial struct {
	t       *testing.T
	servers []*server
	wrong   []string
	open    []*client
	ids     int
}

// client is one process.
type client struct {
	*quorum.Backend
	x     *trial
	links []*link
}

// scenario is what has to hold, by the name that the documentation has for it.
type scenario struct {
	id, name string
	members  int
	run      func(x *trial)
}

// try runs s in a bubble of its own, and gives what was wrong.
func (s scenario) try(t *testing.T) (wrong []string) {
	synctest.Test(t, func(t *testing.T) {
		x := &trial{t: t}
		for range s.members {
			x.servers = append(x.servers, newServer())
		}
		s.run(x)
		for _, s := range x.servers {
			s.resume()
		}
		for _, c := range x.open {
			if err := c.Close(); err != nil {
				x.errorf("Close: %v", err)
			}
		}
		wrong = x.wrong
	})
	return wrong
}

func (x *trial) errorf(format string, args ...any) {
	x.wrong = append(x.wrong, fmt.Sprintf(format, args...))
}

// client opens a client.
func (x *trial) client() *client {
	c := &client{x: x}
	var all []driver.Backend
	for _, s := range x.servers {
		l := &link{s: s}
		c.links = append(c.links, l)
		all = append(all, l)
	}
	b, err := quorum.New(quorum.MaxTTL, all...)
	if err != nil {
		x.t.Fatal(err)
	}
	c.Backend = b
	x.open = append(x.open, c)
	return c
}

// request is one for a new hold.
func (x *trial) request(ttl time.Duration) driver.Request {
	x.ids++
	return driver.Request{ID: fmt.Sprint("id", x.ids), TTL: ttl}
}

// within is a context that no call should need.
func (x *trial) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(x.t.Context(), d)
	x.t.Cleanup(cancel)
	return ctx
}

// take is a TryLock that has to be granted.
func (c *client) take(key string, ttl time.Duration) (driver.Request, driver.Grant) {
	r := c.x.request(ttl)
	g, err := c.TryLock(c.x.within(time.Minute), key, r)
	if err != nil {
		c.x.errorf("TryLock: %v, want a grant", err)
	}
	return r, g
}

// refused is a TryLock that must not be granted, with an error that matches want.
func (c *client) refused(key string, want error, when string) {
	r := c.x.request(10 * time.Second)
	_, err := c.TryLock(c.x.within(time.Minute), key, r)
	switch {
	case err == nil:
		c.x.errorf("TryLock %s: granted", when)
		_ = c.Unlock(c.x.within(time.Minute), key, r.ID)
	case want != nil && !errors.Is(err, want):
		c.x.errorf("TryLock %s: %v, want %v", when, err, want)
	case want == nil && driver.Definite(err) && !errors.Is(err, driver.ErrNotSent):
		c.x.errorf("TryLock %s: %v, want an outage", when, err)
	}
}

func (c *client) unlock(key string, r driver.Request) {
	if err := c.Unlock(c.x.within(time.Minute), key, r.ID); err != nil {
		c.x.errorf("Unlock: %v", err)
	}
}

func (c *client) renew(key string, r driver.Request, when string) driver.Grant {
	g, err := c.Renew(c.x.within(time.Minute), key, r)
	if err != nil {
		c.x.errorf("Renew %s: %v", when, err)
	}
	return g
}

// rising notes that a token is greater than the one before.
func (x *trial) rising(last *int64, g driver.Grant, when string) {
	if g.Token <= *last {
		x.errorf("token %s: %d after %d, want a greater one", when, g.Token, *last)
	}
	*last = g.Token
}
