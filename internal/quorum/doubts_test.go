package quorum_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/quorum"
)

// waitBeside has c ask for a key that is held while a member hangs, so that it is not known whether the member has carried
// out the release of an attempt.
func (x *trial) waitBeside(i int, c *client, r driver.Request) {
	x.servers[i].hang()
	ctx, cancel := context.WithTimeout(x.t.Context(), 3*time.Second)
	defer cancel()
	c.poll(ctx, "k", r)
	x.servers[i].resume()
}

// heldAndWaitedFor gives a client that holds a key, and another one with its request for it. Members take a millisecond.
func (x *trial) heldAndWaitedFor(ttl time.Duration) (holder *client, held driver.Request, waiter *client, r driver.Request) {
	for _, s := range x.servers {
		s.delay.Store(int64(time.Millisecond))
	}
	holder, waiter = x.client(), x.client()
	held, _ = holder.take("k", time.Minute)
	synctest.Wait()
	return holder, held, waiter, x.request(ttl)
}

// A waiter that was there while one member hung, and later another one, is granted the key after the ten minutes for which
// releases may be late.
func TestDoubtsEnd(t *testing.T) {
	inTrial(t, func(x *trial) {
		h, held, c, r := x.heldAndWaitedFor(10 * time.Second)
		x.waitBeside(2, c, r)
		time.Sleep(10 * time.Second)
		x.waitBeside(1, c, r)
		h.unlock("k", held)
		if _, err := c.TryLock(x.within(time.Minute), "k", r); err == nil || errors.Is(err, driver.ErrLocked) {
			x.errorf("TryLock where two members may yet release: %v", err)
		}
		ctx, cancel := context.WithTimeout(x.t.Context(), 10*time.Minute+time.Second)
		defer cancel()
		c.poll(ctx, "k", r)
		if _, err := c.TryLock(x.within(time.Minute), "k", r); err != nil {
			x.errorf("TryLock of a free key, all members serve: %v", err)
		}
	})
}

// A hold of a waiter that was there while one member hung outlives, a quarter of an hour later, that another one is down.
func TestDoubtThenOneDown(t *testing.T) {
	inTrial(t, func(x *trial) {
		h, held, c, r := x.heldAndWaitedFor(9 * time.Second)
		x.waitBeside(2, c, r)
		time.Sleep(time.Second)
		h.unlock("k", held)
		time.Sleep(time.Second)
		if _, err := c.TryLock(x.within(time.Minute), "k", r); err != nil {
			x.errorf("TryLock: %v", err)
		}
		for range 300 {
			time.Sleep(3 * time.Second)
			c.renew("k", r, "all serve")
		}
		x.servers[0].setDown(true)
		for range 4 {
			time.Sleep(3 * time.Second)
			c.renew("k", r, "one of three is down")
		}
	})
}

// oneWay is how one client reaches a member: it may be cut off for all but releases.
type oneWay struct {
	*member
	cut bool
}

func (o *oneWay) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if o.cut {
		return driver.Grant{}, errors.New("reset")
	}
	return o.member.Renew(ctx, key, r)
}

func (o *oneWay) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if o.cut {
		return driver.Grant{}, errors.New("reset")
	}
	return o.member.TryLock(ctx, key, r)
}

// slowRelease is a member that a release reaches late, and whose answer to it is late, too; and, if first is not 0, the answer
// to the first attempt.
type slowRelease struct {
	*member
	before, after time.Duration
	first         time.Duration
	attempts      atomic.Int32
}

func (o *slowRelease) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := o.member.TryLock(ctx, key, r)
	if o.attempts.Add(1) == 1 {
		time.Sleep(o.first)
	}
	return g, err
}

func (o *slowRelease) Unlock(ctx context.Context, key, id string) error {
	time.Sleep(o.before)
	err := o.member.Unlock(ctx, key, id)
	time.Sleep(o.after)
	return err
}

// A renewal does not count the vote of a member to which the release of an earlier attempt is on its way: this one gives
// back what the third member granted, gets the two others, and is cut off from the first.
func TestRenewalBesideARelease(t *testing.T) {
	slow := &slowRelease{before: 300 * time.Millisecond, after: 500 * time.Millisecond}
	renewBesideARelease(t, slow, func(t *testing.T, b driver.Locker, r driver.Request, free func() error) error {
		freed := make(chan error, 1)
		go func() {
			time.Sleep(2 * time.Millisecond)
			freed <- free()
		}()
		_, err := b.TryLock(t.Context(), "k", r)
		return errors.Join(err, <-freed)
	})
}

// The same for a release that has not been sent yet, because it waits for the attempt before it: the third member's answer to
// that is late.
func TestRenewalBesideAQueuedRelease(t *testing.T) {
	slow := &slowRelease{first: 300 * time.Millisecond, after: 500 * time.Millisecond}
	renewBesideARelease(t, slow, func(t *testing.T, b driver.Locker, r driver.Request, free func() error) error {
		if _, err := b.TryLock(t.Context(), "k", r); !errors.Is(err, driver.ErrLocked) {
			t.Fatalf("TryLock of a key that is held: %v", err)
		}
		if err := free(); err != nil {
			return err
		}
		_, err := b.TryLock(t.Context(), "k", r)
		return err
	})
}

// renewBesideARelease has take get a key that another holds at the first two members, until free is called. The third one is
// slow. Then the first is cut off, and the hold renewed: no rival may have the key before what that promises is over.
func renewBesideARelease(t *testing.T, slow *slowRelease, take func(t *testing.T, b driver.Locker, r driver.Request, free func() error) error) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		one, two, three := newMember(), newMember(), newMember()
		first := &oneWay{member: one}
		slow.member = three
		b := quorumOf(t, first, two, slow)
		defer b.Close()
		rival := quorumOf(t, one, two, three)
		// The third counts from a greater token, as one whose clock is ahead: its vote is not too low.
		ahead := driver.Request{ID: "before", TTL: time.Second, Floor: time.Now().Add(10 * time.Second).UnixMicro()}
		_, err := three.TryLock(ctx, "k", ahead)
		if err := errors.Join(err, three.Unlock(ctx, "k", ahead.ID)); err != nil {
			t.Fatal(err)
		}
		for _, m := range []*member{one, two} {
			if _, err := m.TryLock(ctx, "k", driver.Request{ID: "other", TTL: time.Second, Floor: 1}); err != nil {
				t.Fatal(err)
			}
		}
		r := driver.Request{ID: "x", TTL: 400 * time.Millisecond}
		if err := take(t, b, r, func() error {
			return errors.Join(one.members.Unlock(ctx, "k", "other"), two.members.Unlock(ctx, "k", "other"))
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(150 * time.Millisecond)
		first.cut = true
		g, err := b.Renew(ctx, "k", r)
		if err == nil || driver.Definite(err) {
			t.Errorf("Renew by the second member alone: %v", err)
		}
		noneBefore(t, rival, g.Since.Add(g.TTL))
	})
}

// noneBefore reports a rival that is granted the key "k" before a lease of x is over, less the margin of its certainty.
func noneBefore(t *testing.T, rival driver.Locker, until time.Time) {
	t.Helper()
	for time.Now().Before(until.Add(-10 * time.Millisecond)) {
		if _, err := rival.TryLock(t.Context(), "k", driver.Request{ID: "y", TTL: time.Second}); err == nil {
			t.Errorf("a rival is granted the key, which x has for %v more", time.Until(until))
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// Where one member hangs, and another lacks the hold because it was down at the grant, Unlock can't know whether the hold was
// still its own. It says so within the bound of a call.
func TestUnlockBesideAHungMember(t *testing.T) {
	inTrial(t, func(x *trial) {
		c := x.client()
		x.servers[2].setDown(true)
		r, _ := c.take("k", 30*time.Second)
		synctest.Wait()
		x.servers[2].setDown(false)
		time.Sleep(3 * time.Second)
		x.servers[0].hang()
		start := time.Now()
		err := c.Unlock(x.within(time.Minute), "k", r.ID)
		if took := time.Since(start); took > quorum.CallBound || err == nil || driver.Definite(err) {
			x.errorf("Unlock beside a hung member: %v, took %v", err, took)
		}
	})
}

// Unlock of a hold that was broken while it was certain says so, also where the third member has not carried out the Break yet
// and answers first: another may have had the key.
func TestUnlockOfABrokenHold(t *testing.T) {
	inTrial(t, func(x *trial) {
		c, operator := x.client(), x.client()
		r, _ := c.take("k", 30*time.Second)
		synctest.Wait()
		x.servers[2].setDown(true)
		if err := operator.Break(x.within(time.Minute), "k", r.ID); err != nil {
			x.errorf("Break: %v", err)
		}
		x.servers[2].setDown(false)
		for _, s := range x.servers[:2] {
			s.delay.Store(int64(4 * time.Millisecond))
		}
		if err := c.Unlock(x.within(time.Minute), "k", r.ID); !errors.Is(err, driver.ErrNotHeld) {
			x.errorf("Unlock of a broken hold: %v", err)
		}
	})
}

// Close lets a release be sent that a majority has made already, and that waits for the attempt before it at the third
// member: else that would keep the hold for a whole lease.
func TestCloseAfterUnlock(t *testing.T) {
	inTrial(t, func(x *trial) {
		c := x.client()
		x.servers[2].delay.Store(int64(100 * time.Millisecond))
		r, _ := c.take("k", time.Minute)
		c.unlock("k", r)
		if err := c.Close(); err != nil {
			x.errorf("Close: %v", err)
		}
		if _, err := (&link{s: x.servers[2]}).TryLock(x.within(time.Minute), "k", x.request(time.Second)); err != nil {
			x.errorf("the third member, after Close: %v", err)
		}
	})
}
