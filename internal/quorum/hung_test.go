package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/quorum"
)

// inTrial runs do with three servers in a bubble of its own.
func inTrial(t *testing.T, do func(x *trial)) {
	t.Helper()
	for _, wrong := range (scenario{members: 3, run: do}).try(t) {
		t.Error(wrong)
	}
}

// busy is a member that takes 5ms for a TryLock.
type busy struct {
	*member
	stuck         string       // the key for which it takes forever
	asked, listed atomic.Int32 // TryLocks that it was asked for, and lists under way
	hangs         bool         // List does
}

func newBusy() *busy { return &busy{member: newMember()} }

func (b *busy) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	b.asked.Add(1)
	took := 5 * time.Millisecond
	if key == b.stuck {
		took = time.Hour
	}
	if !quorum.Sleep(ctx, took) {
		return driver.Grant{}, ctx.Err()
	}
	return b.member.TryLock(ctx, key, r)
}

func (b *busy) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	if !b.hangs {
		return b.member.List(ctx, prefix)
	}
	return func(yield func(string, error) bool) {
		b.listed.Add(1)
		defer b.listed.Add(-1)
		<-ctx.Done()
		yield("", ctx.Err())
	}
}

// takeMany takes so many keys at once.
func takeMany(t *testing.T, b *quorum.Backend, n int) {
	t.Helper()
	failed := make(chan error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			key := fmt.Sprint("k", i)
			_, err := b.TryLock(t.Context(), key, driver.Request{ID: key, TTL: 5 * time.Second})
			failed <- err
		})
	}
	wg.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			t.Errorf("of %d at once: %v", n, err)
			return
		}
	}
}

// Members that serve take as many calls as there are.
func TestManyCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := quorumOf(t, newBusy(), newBusy(), newBusy())
		defer b.Close()
		takeMany(t, b, 3000)
	})
}

// A call that is not answered says nothing of a member that answers others.
func TestOneCallIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		third := newBusy()
		third.stuck = "slow"
		b := quorumOf(t, newBusy(), newBusy(), third)
		defer b.Close()
		if _, err := b.TryLock(t.Context(), "slow", driver.Request{ID: "slow", TTL: time.Second}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(quorum.CallBound / 2)
		if err := b.Ping(t.Context()); err != nil { // which the third one answers, too
			t.Errorf("Ping: %v", err)
		}
		time.Sleep(quorum.CallBound / 2)
		synctest.Wait() // the call has ended
		third.asked.Store(0)
		takeMany(t, b, 100)
		synctest.Wait()
		if n := third.asked.Load(); n != 100 {
			t.Errorf("the member is asked for %d of 100 locks", n)
		}
	})
}

// Calls do not pile up at a member that hangs, also where their callers end them on return.
func TestCallsAtAHungMember(t *testing.T) {
	inTrial(t, func(x *trial) {
		c := x.client()
		c.take("first", time.Second)
		synctest.Wait()
		x.servers[2].hang()
		start, first := time.Now(), 0
		for i := range 2000 {
			ctx, cancel := context.WithCancel(x.t.Context())
			if _, err := c.TryLock(ctx, fmt.Sprint(i), x.request(time.Second)); err != nil {
				x.errorf("TryLock: %v", err)
			}
			cancel()
			time.Sleep(2 * time.Millisecond)
			if time.Since(start) <= quorum.CallBound {
				first = x.servers[2].queued()
			}
		}
		if n := x.servers[2].queued() - first; n > 3*quorum.SilentCalls+1 {
			x.errorf("%d calls on a hung member after its first second, want %d a second", n, quorum.SilentCalls)
		}
	})
}

// Contenders that split the votes do not wait for a member that hangs.
func TestSplitBesideAHungMember(t *testing.T) {
	inTrial(t, func(x *trial) {
		for _, s := range x.servers {
			s.delay.Store(int64(time.Millisecond))
		}
		one, other := x.client(), x.client()
		x.servers[2].hang()
		one.links[1].extra.Store(int64(2 * time.Millisecond))
		other.links[0].extra.Store(int64(2 * time.Millisecond))
		var won atomic.Int32
		var wg sync.WaitGroup
		start := time.Now()
		for _, c := range []*client{one, other} {
			r := x.request(30 * time.Second)
			wg.Go(func() {
				switch _, err := c.TryLock(x.t.Context(), "k", r); {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, driver.ErrLocked):
					x.t.Errorf("a contender: %v", err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(start); took > 200*time.Millisecond || won.Load() != 1 {
			x.errorf("%d of two contenders won, in %v: want one, within 200ms", won.Load(), took)
		}
	})
}

// A renewal raises the token of a member, and does not wait for another one that hangs.
func TestLowTokenBesideAHungMember(t *testing.T) {
	inTrial(t, func(x *trial) {
		ahead, c := x.client(), x.client()
		quorum.SetClock(ahead.Backend, 10*time.Second)
		x.servers[2].setDown(true)
		r, _ := ahead.take("k", 10*time.Second)
		ahead.unlock("k", r)
		synctest.Wait()
		x.servers[2].setDown(false)
		c.links[2].extra.Store(int64(time.Millisecond)) // it comes after the others
		r, _ = c.take("k", 10*time.Second)
		time.Sleep(time.Second)
		synctest.Wait()
		x.servers[1].hang()
		start := time.Now()
		c.renew("k", r, "beside a hung member")
		if took := time.Since(start); took > 10*time.Millisecond {
			x.errorf("renewed in %v, want 10ms at most", took)
		}
	})
}

// List ends what it began, and that is no failure of the member.
func TestListEndsItsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := newBusy()
		hung.hangs = true
		b := quorumOf(t, newBusy(), newBusy(), hung)
		defer b.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 10 {
			for _, err := range b.List(ctx, "") {
				t.Errorf("List: %v, want no keys", err)
			}
		}
		synctest.Wait()
		if n := hung.listed.Load(); n > 0 {
			t.Errorf("%d lists under way after List has returned", n)
		}
		hung.asked.Store(0)
		takeMany(t, b, 100)
		synctest.Wait()
		if n := hung.asked.Load(); n != 100 {
			t.Errorf("the member whose list was ended is asked for %d of 100 locks", n)
		}
	})
}

// half is a member that fails renewals, or does something while it renews.
type half struct {
	*member
	fails  bool
	during func(key string) // a renewal that raises the token
}

func (h *half) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if h.fails {
		return driver.Grant{}, errors.New("reset")
	}
	if h.during != nil && r.Floor != 0 {
		h.during(key)
	}
	return h.member.Renew(ctx, key, r)
}

// A hold that is unlocked while it is renewed has one vote of the member whose token is raised.
func TestUnlockDuringAHeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		low, two, three := &half{member: newMember()}, &half{member: newMember()}, &half{member: newMember()}
		ctx := t.Context()
		b := quorumOf(t, low, two, three)
		defer b.Close()
		var holds []driver.Hold
		for _, key := range []string{"other", "k"} {
			for _, m := range []*half{two, three} { // their tokens are greater
				ahead := driver.Request{ID: "before", TTL: time.Second, Floor: time.Now().Add(10 * time.Second).UnixMicro()}
				_, err := m.TryLock(ctx, key, ahead)
				if err := errors.Join(err, m.Unlock(ctx, key, ahead.ID)); err != nil {
					t.Fatal(err)
				}
			}
			r := driver.Request{ID: "x", TTL: 10 * time.Second}
			holds = append(holds, driver.Hold{Key: key, Request: r})
			low.away = true
			_, err := b.TryLock(ctx, key, r)
			synctest.Wait() // low has answered, too
			low.away = false
			r.Floor = 1
			_, own := low.TryLock(ctx, key, r)
			if err := errors.Join(err, own); err != nil {
				t.Fatal(err)
			}
		}
		reset := func(context.Context, string, string) error { return errors.New("reset") }
		two.fails, three.fails = true, true
		two.unlock, three.unlock = reset, reset
		var unlocked sync.WaitGroup
		low.during = func(key string) {
			if key == "k" {
				unlocked.Go(func() { _ = b.Unlock(ctx, key, "x") }) // two members fail
			}
			time.Sleep(time.Millisecond)
		}
		for i, r := range b.RenewAll(ctx, holds) {
			if r.Err == nil {
				t.Errorf("%s is renewed by one of three members: %+v", holds[i].Key, r.Grant)
			}
		}
		unlocked.Wait()
	})
}

// plainValue is a store of a type that cannot be compared.
type plainValue struct {
	members
	_ []int
}

func TestMembersThatCannotBeCompared(t *testing.T) {
	var all []driver.Backend
	for range 3 {
		all = append(all, plainValue{members: newMember().members})
	}
	if err := quorumOf(t, all...).Close(); err != nil {
		t.Error(err)
	}
}
