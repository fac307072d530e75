package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/quorum"
)

// Calls that wait for earlier ones of the same id at a member that hangs are not sent once it is known to be silent.
func TestQueuedCallsAtAHungMember(t *testing.T) {
	const waiters = 50
	inTrial(t, func(x *trial) {
		for _, s := range x.servers {
			s.delay.Store(int64(time.Millisecond))
		}
		h, c := x.client(), x.client()
		for i := range waiters {
			h.take(fmt.Sprint("k", i), time.Minute)
		}
		c.take("other", time.Minute)
		synctest.Wait()
		x.servers[2].hang()
		ctx, cancel := context.WithTimeout(x.t.Context(), 900*time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		for i := range waiters {
			r := x.request(time.Minute)
			wg.Go(func() { c.poll(ctx, fmt.Sprint("k", i), r) })
		}
		wg.Wait() // from here on nobody calls
		time.Sleep(2 * time.Second)
		last := x.servers[2].queued()
		for s := range 10 {
			time.Sleep(time.Second)
			n := x.servers[2].queued()
			if n-last > quorum.SilentCalls {
				x.errorf("second %d: %d calls on a member that answers nobody, want %d at most", s+3, n-last, quorum.SilentCalls)
			}
			last = n
		}
	})
}

// poll tries key until ctx ends, as one who waits for it does.
func (c *client) poll(ctx context.Context, key string, r driver.Request) {
	for pause := 2 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, 40*time.Millisecond) {
		if _, err := c.TryLock(ctx, key, r); err == nil {
			c.unlock(key, r)
		}
		quorum.Sleep(ctx, pause/2+rand.N(pause))
	}
}

// A member that hung grants nothing to who has unlocked meanwhile.
func TestQueuedCallsAfterUnlock(t *testing.T) {
	inTrial(t, func(x *trial) {
		for _, s := range x.servers {
			s.delay.Store(int64(time.Millisecond))
		}
		h, c := x.client(), x.client()
		held, _ := h.take("k", time.Minute)
		c.take("other", time.Minute)
		synctest.Wait()
		x.servers[2].hang()
		r := x.request(time.Minute)
		for range 9 {
			if _, err := c.TryLock(x.t.Context(), "k", r); !errors.Is(err, driver.ErrLocked) {
				x.errorf("of a held key: %v", err)
			}
			time.Sleep(20 * time.Millisecond)
		}
		h.unlock("k", held)
		if _, err := c.TryLock(x.t.Context(), "k", r); err != nil {
			x.errorf("of a free key: %v", err)
		}
		time.Sleep(2 * time.Second)
		c.unlock("k", r)
		time.Sleep(time.Second)
		x.servers[2].resume()
		time.Sleep(5 * time.Second)
		if h, err := c.links[2].Inspect(x.t.Context(), "k"); err == nil {
			x.errorf("the member that hung grants the key to %s for %v, after it was unlocked", h.ID, h.TTL)
		}
	})
}

// An outage that is long over is no reason to refuse calls.
func TestManyCallersAfterAnOutage(t *testing.T) {
	inTrial(t, func(x *trial) {
		c := x.client()
		c.take("first", time.Minute)
		synctest.Wait()
		time.Sleep(2 * quorum.CallBound)
		x.servers[0].setDown(true)
		x.servers[1].setDown(true)
		c.refused("k", nil, "while two are down")
		synctest.Wait()
		for _, s := range x.servers {
			s.setDown(false)
			s.delay.Store(int64(5 * time.Millisecond))
		}
		time.Sleep(time.Hour)
		takeMany(x.t, c.Backend, 100)
	})
}

// A contender whose context ends says so.
func TestContextEndsAmongContenders(t *testing.T) {
	inTrial(t, func(x *trial) {
		for _, s := range x.servers {
			s.delay.Store(int64(time.Millisecond))
		}
		c := x.client()
		for i := range 2 { // each has the vote of one member
			if _, err := c.links[i].TryLock(x.t.Context(), "k", driver.Request{ID: fmt.Sprint("other", i), TTL: time.Minute, Floor: 1}); err != nil {
				x.t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(x.t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := c.TryLock(ctx, "k", x.request(time.Minute)); !errors.Is(err, context.DeadlineExceeded) {
			x.errorf("TryLock whose context ended: %v", err)
		}
	})
}

// Waiters that take the vote of a member which came back, and give it back, do not keep the holder from it.
func TestHealAmongWaiters(t *testing.T) {
	inTrial(t, func(x *trial) {
		for _, s := range x.servers {
			s.delay.Store(int64(time.Millisecond))
		}
		h := x.client()
		x.servers[0].setDown(true)
		r, _ := h.take("k", 9*time.Second)
		x.servers[0].setDown(false)
		ctx, cancel := context.WithCancel(x.t.Context())
		var wg sync.WaitGroup
		for range 24 {
			c, q := x.client(), x.request(9*time.Second)
			wg.Go(func() { c.poll(ctx, "k", q) })
		}
		healed := false
		for range 3 {
			time.Sleep(3 * time.Second)
			h.renew("k", r, "among waiters")
			time.Sleep(quorum.ContendFor)
			holder, err := h.links[0].Inspect(x.t.Context(), "k")
			healed = healed || err == nil && holder.ID == r.ID
		}
		if !healed {
			x.errorf("three renewals did not bring the hold to the member that came back")
		}
		cancel()
		wg.Wait()
	})
}
