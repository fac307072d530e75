// Package coordtest helps applications to test code that locks and limits:
// a client on a store of its own in memory, with nothing to install, that loses a
// lock, cannot reach its store or is slow when the test says so.
//
//	func TestInvoices(t *testing.T) {
//		client := coordtest.New(t)
//		…
//		client.Lose("invoices") // as if the store had dropped the hold
//		…
//	}
//
// It has no clock of its own, because testing/synctest moves time: in a bubble, time.Sleep
// of a TTL or of the period of a limit takes no time (see the example of Client.Delay).
package coordtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/observe"
)

// Client is a coord.Client on a store in memory.
type Client struct {
	*coord.Client
	t     testing.TB
	store *memory.Store
	lossy *lossy
}

// New makes a Client on a fresh store. When the test ends, it fails the test if
// a lock is still held, and closes the Client.
func New(t testing.TB, opts ...coord.Option) *Client {
	t.Helper()
	return NewOn(t, memory.NewStore(), opts...)
}

// NewOn is New on a store that several Clients of the test share, as processes
// share a real one.
func NewOn(t testing.TB, store *memory.Store, opts ...coord.Option) *Client {
	t.Helper()
	real := store.Open()
	b := &lossy{faults: newFaults(real), real: real, held: make(map[hold]bool)}
	closed := new(closing)
	client, err := coord.New(b, append(slices.Clip(opts), coord.WithObserver(closed.observer()))...)
	if err != nil {
		t.Fatalf("coordtest: %v", err)
	}
	c := &Client{Client: client, t: t, store: store, lossy: b}
	clients.add(store, b)
	t.Cleanup(func() {
		defer clients.remove(store, b)
		c.Heal()
		held := b.live()
		err := client.Close()
		for _, h := range held {
			if closed.ended(h.id) {
				t.Errorf("coordtest: the lock on %q is still held at the end of the test", h.name())
			}
		}
		if err != nil {
			t.Errorf("coordtest: %v", err)
		}
	})
	return c
}

// closing notes the holds that it took Close to end. One that had ended before, as by
// MaxHold, may be at the store for a moment yet: its release is on the way.
type closing struct {
	mu  sync.Mutex
	ids map[string]bool
}

func (c *closing) observer() observe.Observer {
	return observe.Observer{Lost: func(_ context.Context, e observe.Lost) {
		if e.Reason != observe.LossClosed {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.ids == nil {
			c.ids = make(map[string]bool)
		}
		c.ids[e.ID] = true
	}}
}

func (c *closing) ended(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ids[id]
}

// Lose takes the lock on key from its holder, as a store that lost its data would:
// the key is free at once, and Done of the holder's Lock closes before Lose
// returns, during a Cut too. Read/write locks and permits of key are taken from all that share them. The holders may be
// any Clients of this package on the same store. key is with the client's prefix. It fails the test if no such Client holds
// key.
func (c *Client) Lose(key string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	found := false
	for _, l := range clients.of(c.store) {
		for _, h := range l.live() {
			if h.name() != key {
				continue
			}
			found = true
			if err := l.drop(ctx, h); err != nil {
				c.t.Fatalf("coordtest: Lose(%q): %v", key, err)
			}
		}
	}
	if !found {
		c.t.Fatalf("coordtest: Lose(%q): no Client of coordtest holds it", key)
	}
}

// clients are the open ones of each store.
var clients = registry{open: make(map[*memory.Store][]*lossy)}

type registry struct {
	mu   sync.Mutex
	open map[*memory.Store][]*lossy
}

func (r *registry) add(s *memory.Store, l *lossy) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[s] = append(r.open[s], l)
}

func (r *registry) remove(s *memory.Store, l *lossy) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[s] = slices.DeleteFunc(r.open[s], func(o *lossy) bool { return o == l })
	if len(r.open[s]) == 0 {
		delete(r.open, s)
	}
}

// of gives the clients of a store.
func (r *registry) of(s *memory.Store) []*lossy {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.open[s])
}

// errDropped is the cause that a loss made by Lose gives.
var errDropped = errors.New("coordtest: the test took the lock away")

// lossy is a store that keeps account of holds, and can tell of a loss.
type lossy struct {
	*faults
	real driver.Backend // the store itself, which the test reaches during a Cut too
	mu   sync.Mutex
	held map[hold]bool

	lost, lostShare func(key, id string, cause error) // they tell the client
}

type hold struct{ key, id string }

// name is the key as the application has it: the store has that of a hold that may be shared with an addition.
func (h hold) name() string {
	name, _, _ := strings.Cut(h.key, "\x00")
	return name
}

// Info adds to the store's claims that it reports losses: those that the test makes.
func (l *lossy) Info() driver.Info {
	info := l.faults.Info()
	info.Claims = append(info.Claims, driver.LossPush)
	return info
}

func (l *lossy) NotifyLost(fn func(key, id string, cause error)) { l.lost = fn }

func (l *lossy) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := l.faults.TryLock(ctx, key, r)
	l.note(key, r.ID, err)
	return g, err
}

func (l *lossy) Lock(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	g, err := l.faults.Lock(ctx, key, r, waits)
	l.note(key, r.ID, err)
	return g, err
}

func (l *lossy) note(key, id string, err error) {
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.held[hold{key, id}] = true
	}
}

func (l *lossy) Unlock(ctx context.Context, key, id string) error {
	l.forget(key, id)
	return l.faults.Unlock(ctx, key, id)
}

func (l *lossy) forget(key, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, hold{key, id})
}

// drop ends the hold at the store, and tells its holder.
func (l *lossy) drop(ctx context.Context, h hold) error {
	l.forget(h.key, h.id)
	unlock, lost := l.real.Unlock, l.lost
	if h.name() != h.key {
		unlock, lost = l.real.Shared().Unlock, l.lostShare
	}
	if err := unlock(ctx, h.key, h.id); err != nil {
		return err
	}
	lost(h.key, h.id, errDropped)
	return nil
}

// live lists the holds that nobody has unlocked and the store still has.
func (l *lossy) live() []hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	var live []hold
	for h := range l.held {
		now, err := l.real.Inspect(context.Background(), h.key)
		if err == nil && now.ID == h.id && !now.Released || l.shares(h) {
			live = append(live, h)
		}
	}
	return live
}
