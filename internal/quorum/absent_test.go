package quorum_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/quorum"
)

// A member that is not there when the quorum is opened is opened by the calls, once it is.
func TestAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &trial{t: t, servers: []*server{newServer(), newServer(), newServer()}}
		refused := errors.New("connection refused")
		there := false
		opened := 0
		links := []driver.Backend{&link{s: x.servers[0]}, &link{s: x.servers[1]}}
		late := quorum.Absent(links[0].Info(), refused, func(context.Context) (driver.Backend, error) {
			opened++
			if !there {
				return nil, refused
			}
			return &link{s: x.servers[2]}, nil
		})
		b, err := quorum.New(quorum.MaxTTL, append(links, late)...)
		if err != nil {
			t.Fatal(err)
		}
		c := &client{Backend: b, x: x}
		for range 20 {
			r, _ := c.take("k", 5*time.Second)
			c.unlock("k", r)
			time.Sleep(100 * time.Millisecond)
		}
		if opened == 0 || opened > 3 {
			t.Errorf("opened %d times in 2s of calls, want once a second", opened)
		}
		there = true
		time.Sleep(2 * time.Second)
		r, _ := c.take("held", 20*time.Second)
		synctest.Wait()
		x.servers[0].setDown(true)
		c.renew("held", r, "with the late member")
		if found, err := b.Check(t.Context()); err != nil {
			t.Errorf("Check: %v, %v", found, err)
		}
		c.unlock("held", r)
		n := 0
		for _, err := range c.List(t.Context(), "") {
			if err != nil {
				t.Error(err)
			}
			n++
		}
		if n != 0 {
			t.Errorf("List: %d keys, want none", n)
		}
		if err := c.Ping(t.Context()); err != nil {
			t.Errorf("Ping: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if _, err := c.TryLock(t.Context(), "k", r); !errors.Is(err, driver.ErrClosed) {
			t.Errorf("TryLock after Close: %v", err)
		}
		for _, wrong := range x.wrong {
			t.Error(wrong)
		}
	})
}

// claimsLess is a member that lacks a claim which a quorum does not make.
type claimsLess struct {
	*link
	claim driver.Claim
}

func (c claimsLess) Info() driver.Info {
	info := c.link.Info()
	info.Claims = info.Claims.Without(c.claim)
	return info
}

// Whether a member may do without a claim does not depend on when it is there.
func TestAbsentNeedsNoMoreClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &trial{t: t, servers: []*server{newServer(), newServer(), newServer()}}
		links := []driver.Backend{&link{s: x.servers[0]}, &link{s: x.servers[1]}}
		late := quorum.Absent(links[0].Info(), errors.New("connection refused"), func(context.Context) (driver.Backend, error) {
			return claimsLess{&link{s: x.servers[2]}, driver.Wake}, nil
		})
		b, err := quorum.New(quorum.MaxTTL, append(links, late)...)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		c := &client{Backend: b, x: x}
		r, _ := c.take("held", 20*time.Second)
		synctest.Wait()
		x.servers[0].setDown(true)
		c.renew("held", r, "with the late member")
		c.unlock("held", r)
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		for _, wrong := range x.wrong {
			t.Error(wrong)
		}
	})
}
