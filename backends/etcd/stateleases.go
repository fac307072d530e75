package etcd

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// stateLeases are the leases that states of limits are put on.
type stateLeases struct {
	mu          sync.Mutex
	generations map[int64]*generation // by the seconds that a state is to last
}

// generation is the leases that the states of one class share. They are not kept alive: what was written on one of them
// lasts long enough.
type generation struct {
	asking ctxMutex // held while a lease is asked for
	leases []*stateLease
}

// stateLease is one of them.
type stateLease struct {
	id     int64
	lost   bool      // the server does not know it
	until  time.Time // on the monotonic clock, which stops while the machine sleeps
	wall   time.Time // the same on the wall clock, which may be set; what comes first counts
	states int       // that this client has bound to it
}

// lasts reports whether l keeps a state long enough that needs d. stateLeases.mu is held.
func (l *stateLease) lasts(d time.Duration) bool {
	return l != nil && !l.lost && min(time.Until(l.until), time.Until(l.wall)) >= d
}

// maxStates is how many states share a lease. A lease that ends takes its keys in one step, for which the server stops: for
// 5 µs a key or so.
const maxStates = 10_000

// maxLeases is how many leases of a class are used at a time; with those that are not used any more there are half as many
// again. Beyond 640,000 states each has more of them: of a million, 16,000, for whose end the server stops 80 ms.
const maxLeases = 64

// Leases of a generation last three times as long as a state of the class needs, and
// are used for two thirds of that: a decision costs no request for its expiry.
const (
	generationLife = 3
	// minClass is the shortest class; each next one is twice as long.
	minClass = 64
	maxClass = clientv3.MaxLeaseTTL / generationLife
)

// classOf is the class of a state that is to last for d, in seconds.
func classOf(d time.Duration) int64 {
	c := int64(minClass)
	for c < maxClass && time.Duration(c)*time.Second < d {
		c *= 2
	}
	return min(c, maxClass)
}

// lease gives a lease for the state of c that lasts at least for d from now. A state stays on its lease as long as it can, so
// that leases are as few as states need, however often they are written. Its errors changed nothing.
func (t *stateLeases) lease(ctx context.Context, b *backend, c *cell, d time.Duration) (int64, error) {
	class := classOf(d)
	t.mu.Lock()
	g := t.generations[class]
	if g == nil {
		g = &generation{}
		t.generations[class] = g
	}
	id := g.bind(c, class, d)
	t.mu.Unlock()
	if id != 0 {
		return id, nil
	}
	unlock, err := g.asking.lock(ctx)
	if err != nil {
		return 0, err
	}
	defer unlock()
	t.mu.Lock()
	id = g.bind(c, class, d)
	t.mu.Unlock()
	if id != 0 {
		return id, nil
	}
	resp, sent, err := b.grantLease(ctx, generationLife*class)
	if err != nil {
		return 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	until := sent.Add(time.Duration(resp.TTL) * time.Second)
	c.Version.lease = &stateLease{id: resp.ID, until: until, wall: until.Round(0), states: 1}
	g.leases = append(g.leases, c.Version.lease)
	return resp.ID, nil
}

// bind finds a lease for c: the one that it has, or else the newest, or if there are many the one with the fewest states.
// 0: there is to be another. stateLeases.mu is held.
func (g *generation) bind(c *cell, class int64, d time.Duration) int64 {
	if c.Version.lease.lasts(d) {
		return c.Version.lease.id
	}
	whole := time.Duration(class) * time.Second
	g.leases = slices.DeleteFunc(g.leases, func(l *stateLease) bool { return !l.lasts(whole) })
	n := len(g.leases)
	if n == 0 {
		return 0
	}
	l := g.leases[n-1]
	if l.states >= maxStates {
		if n < maxLeases {
			return 0
		}
		l = slices.MinFunc(g.leases, func(x, y *stateLease) int { return cmp.Compare(x.states, y.states) })
	}
	l.states++
	c.Version.lease = l
	return l.id
}

// refused reports whether a write of cells failed because the server does not know a lease any more, which it has lost
// or someone has revoked. Others are then asked for.
func (t *stateLeases) refused(err error, cells []*cell) bool {
	if !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range cells {
		if l := c.Version.lease; l != nil {
			l.lost = true
		}
	}
	return true
}
