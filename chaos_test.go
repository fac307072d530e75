package coord

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/internal/hold"
)

// chaos is a run of many goroutines against a store that loses calls and replies.
type chaos struct {
	t   *testing.T
	rng *rand.Rand
	mu  sync.Mutex

	holder *Lock // who believes to hold
	last   Token
	grants int
	losses int
}

func newChaos(t *testing.T, seed uint64) *chaos {
	return &chaos{t: t, rng: rand.New(rand.NewPCG(seed, 1))}
}

func (x *chaos) float() float64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.rng.Float64()
}

// outcome loses one call in ten, in every way a network can.
func (x *chaos) outcome(op, key string) outcome {
	time.Sleep(time.Duration(x.float() * float64(3*time.Millisecond)))
	switch p := x.float(); {
	case p < 0.02:
		return outcome{before: errWire}
	case p < 0.05:
		return outcome{after: errWire}
	case p < 0.07:
		return outcome{hang: true}
	case p < 0.10:
		return outcome{hangAfter: true}
	}
	return outcome{}
}

// granted checks that nobody else believes to hold, and that tokens rise.
func (x *chaos) granted(l *Lock) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.holder != nil && x.holder.h.t.Check() == nil {
		x.t.Errorf("token %d was granted while %d is held", l.Token(), x.holder.Token())
	}
	if l.Token() <= x.last {
		x.t.Errorf("token %d after %d", l.Token(), x.last)
	}
	x.holder, x.last = l, l.Token()
	x.grants++
}

// work is one goroutine's life.
func (x *chaos) work(c *Client) {
	for range 20 {
		time.Sleep(time.Duration(x.float() * float64(50*time.Millisecond)))
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+x.float()*float64(2*time.Second)))
		var l *Lock
		var err error
		if x.float() < 0.3 {
			l, err = c.TryLock(ctx, "k", TTL(200*time.Millisecond))
		} else {
			l, err = c.Lock(ctx, "k", TTL(200*time.Millisecond))
		}
		if err != nil {
			for _, bad := range []error{ErrLost, ErrClosed, ErrInvalid, ErrUnsupported, ErrCorrupt} {
				if errors.Is(err, bad) {
					x.t.Errorf("lock: %v", err)
				}
			}
			cancel()
			continue
		}
		x.granted(l)
		select {
		case <-time.After(time.Duration(x.float() * float64(300*time.Millisecond))):
		case <-l.Done():
		}
		if err := l.Unlock(ctx); errors.Is(err, ErrLost) {
			x.mu.Lock()
			x.losses++
			x.mu.Unlock()
		} else if err != nil && !errors.Is(err, ErrUnavailable) {
			x.t.Errorf("unlock: %v", err)
		}
		cancel()
	}
}

// Whatever the network loses: one holder at a time, rising tokens, nobody stuck, nothing left behind, and observers are told
// once that a hold begins and once that it ends, in that order.
func TestChaos(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			x := newChaos(t, seed)
			f.setIntercept(x.outcome)
			events := &holdEvents{t: t, held: make(map[Token]bool)}
			var wg sync.WaitGroup
			clients := make([]*Client, 3)
			for i := range clients {
				clients[i] = newTestClient(t, f, WithObserver(events.observer()))
				for range 4 {
					wg.Go(func() { x.work(clients[i]) })
				}
			}
			wg.Wait()
			f.setIntercept(nil)
			time.Sleep(2 * cleanUpGrace)
			if f.held("k") {
				t.Error("the key is still taken at the end")
			}
			for i, c := range clients {
				if left := c.leftovers(); left != (leftovers{}) {
					t.Errorf("client %d keeps %+v", i, left)
				}
			}
			if x.grants < 50 {
				t.Errorf("%d grants: the test tests nothing", x.grants)
			}
			events.mu.Lock()
			defer events.mu.Unlock()
			if len(events.held) != x.grants || events.ends != x.grants || events.losses < x.losses {
				t.Errorf("%d acquired, %d ended, %d lost; the callers saw %d grants and %d losses", len(events.held), events.ends, events.losses, x.grants, x.losses)
			}
			if events.waiting != 0 || events.calls != 0 {
				t.Errorf("%d waits and %d calls without end", events.waiting, events.calls)
			}
			t.Logf("seed %d: %d grants, %d losses", seed, x.grants, x.losses)
		})
	}
}

// leftovers counts what a client keeps of locks.
type leftovers = hold.Stats

func (c *Client) leftovers() leftovers { return c.locks.Stats() }
