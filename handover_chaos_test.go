package coord

import (
	"context"
	"errors"
	"flag"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var chaosSeeds = flag.Uint64("coord.seeds", 40, "how many seeds the chaos of hand-overs runs under")

// handChaos is many goroutines of one client, and fewer of another, that want one key in
// every way there is.
type handChaos struct {
	*chaos
	fake   *fakeStore
	handed int
	closed bool // one of the clients is being closed
}

// options are what one acquisition asks for: mostly what a hand-over can meet.
func (x *handChaos) options() []LockOption {
	opts := []LockOption{TTL(200 * time.Millisecond)}
	switch p := x.float(); {
	case p < 0.05:
		opts = append(opts, NoRenew())
	case p < 0.08:
		opts = append(opts, MinHold(time.Millisecond))
	case p < 0.12:
		opts[0] = TTL(300 * time.Millisecond)
	case p < 0.25:
		opts = append(opts, MaxHold(time.Duration(1+x.float()*float64(10*time.Millisecond))))
	}
	return opts
}

// granted checks that nobody else holds, and that tokens rise.
func (x *handChaos) granted(l *Lock) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.holder != nil && x.holder.h.t != l.h.t && x.holder.h.t.Check() == nil {
		x.t.Errorf("token %d was granted while %d is held", l.Token(), x.holder.Token())
	}
	if l.h.t.Check() != nil { // and so a later one may be here before it
		return
	}
	if l.Token() <= x.last && (x.holder == nil || x.holder.h.t != l.h.t) {
		x.t.Errorf("token %d after %d", l.Token(), x.last)
	}
	if l.Token()&maxHandOffs != 0 {
		x.handed++
	}
	x.holder, x.last = l, l.Token()
	x.grants++
}

// work is one goroutine's life under an owner, which it may share.
func (x *handChaos) work(ctx context.Context, c *Client) {
	for range 30 {
		time.Sleep(time.Duration(x.float() * x.float() * float64(10*time.Millisecond)))
		x.once(ctx, c)
	}
}

func (x *handChaos) once(ctx context.Context, c *Client) {
	bounded, cancel := context.WithTimeout(ctx, time.Duration(1+x.float()*float64(400*time.Millisecond)))
	defer cancel()
	if x.float() < 0.1 {
		time.AfterFunc(time.Duration(x.float()*float64(3*time.Millisecond)), cancel)
	}
	lock := c.Lock
	if x.float() < 0.1 {
		lock = c.TryLock
	}
	l, err := lock(bounded, "k", x.options()...)
	if err != nil {
		x.refused(err)
		return
	}
	x.granted(l)
	if x.float() < 0.05 {
		x.lose(c, l)
	}
	select {
	case <-time.After(time.Duration(x.float() * x.float() * float64(4*time.Millisecond))):
	case <-l.Done():
	}
	for range 1 + int(x.float()*1.2) { // some unlock twice, at once
		go func() { _ = l.Unlock(context.Background()) }()
	}
	if err := l.Unlock(bounded); err != nil && !errors.Is(err, ErrNotHeld) && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrClosed) {
		x.t.Errorf("unlock: %v", err)
	}
}

func (x *handChaos) refused(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, bad := range []error{ErrUnsupported, ErrCorrupt} {
		if errors.Is(err, bad) {
			x.t.Errorf("lock: %v", err)
		}
	}
	if errors.Is(err, ErrClosed) && !x.closed {
		x.t.Errorf("lock: %v", err)
	}
}

// lose has the store drop the hold, and tell its client first.
func (x *handChaos) lose(c *Client, l *Lock) {
	id := l.h.t.ID()
	c.locks.LossPushed("k", id, errWire)
	x.fake.mu.Lock()
	defer x.fake.mu.Unlock()
	if held := x.fake.leases["k"]; held != nil && held.id == id {
		delete(x.fake.leases, "k")
	}
}

// Whatever happens at once, to whom ever: one holder at a time, rising tokens, nobody
// stuck, nothing left behind.
func TestHandOverInChaos(t *testing.T) {
	handed, grants := 0, 0
	for seed := range *chaosSeeds {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			x := &handChaos{chaos: newChaos(t, seed), fake: f}
			f.setIntercept(x.outcome)
			var opts []Option
			if seed%3 == 0 {
				opts = append(opts, WithObserver((&holdEvents{t: t, held: make(map[Token]bool)}).observer()))
			}
			clients := []*Client{newTestClient(t, f, opts...), newTestClient(t, f)}
			var wg sync.WaitGroup
			for i := range 12 {
				ctx := t.Context()
				if i%3 == 1 {
					ctx = WithOwner(ctx)
				}
				for range 1 + i%5/4 { // some share an owner
					wg.Go(func() { x.work(ctx, clients[i/8]) })
				}
			}
			if seed%4 == 3 {
				time.Sleep(time.Duration(x.float() * float64(300*time.Millisecond)))
				x.mu.Lock()
				x.closed = true
				x.mu.Unlock()
				if err := clients[seed%2].Close(); err != nil {
					t.Error(err)
				}
			}
			wg.Wait()
			f.setIntercept(nil)
			time.Sleep(2 * cleanUpGrace)
			if f.held("k") {
				t.Error("the key is still taken at the end")
			}
			for i, c := range clients {
				if left := c.leftovers(); left != (leftovers{}) && !(x.closed && i == int(seed%2)) {
					t.Errorf("client %d keeps %+v", i, left)
				}
			}
			handed, grants = handed+x.handed, grants+x.grants
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d grants, %d of them handed over", grants, handed)
	if handed < grants/4 {
		t.Errorf("%d of %d grants were handed over: the test tests little", handed, grants)
	}
}
