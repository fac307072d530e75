package memory

import (
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
)

// gates is a way to the accounts of a shard that takes no lock: chains of the gates of accounts
// that are asked often. It may miss one, while it grows or shrinks; then the ask goes the
// way through the shard, which is the truth. It changes under the shard's lock.
type gates struct {
	heads atomic.Pointer[[]atomic.Pointer[gate]] // their number is a power of two; nil: none
	n     int                                    // gates in the chains
	_     [48]byte
}

// gate opens one account to asks of one limit. What finds it is on its first line, what asks
// change on the third.
type gate struct {
	key  string
	hash uint64
	next atomic.Pointer[gate]
	limits.Gate
	acc *account // nil once the gate was dropped; the shard's lock guards it
}

const minHeads = 8

func headOf(heads []atomic.Pointer[gate], hash uint64) *atomic.Pointer[gate] {
	return &heads[hash/shards&uint64(len(heads)-1)]
}

// find looks for the gate of key for asks of l.
func (gs *gates) find(hash uint64, key string, l *driver.Limit) *gate {
	heads := gs.heads.Load()
	if heads == nil {
		return nil
	}
	g := headOf(*heads, hash).Load()
	for g != nil && !(g.Serves(l) && g.key == key) {
		g = g.next.Load()
	}
	return g
}

// put adds a gate.
func (gs *gates) put(g *gate) {
	heads := gs.heads.Load()
	switch {
	case heads == nil:
		gs.resize(minHeads)
	case gs.n >= len(*heads):
		gs.resize(2 * len(*heads))
	}
	gs.link(*gs.heads.Load(), g)
	gs.n++
}

func (gs *gates) link(heads []atomic.Pointer[gate], g *gate) {
	head := headOf(heads, g.hash)
	g.next.Store(head.Load())
	head.Store(g)
}

// drop takes a gate out.
func (gs *gates) drop(g *gate) {
	heads := *gs.heads.Load()
	at := headOf(heads, g.hash)
	for at.Load() != g {
		at = &at.Load().next
	}
	at.Store(g.next.Load()) // who stands on g goes on from there
	if gs.n--; gs.n < len(heads)/8 && len(heads) > minHeads {
		gs.resize(len(heads) / 2)
	}
}

// resize makes other chains of the same gates. Who walks along a chain meanwhile may end up in
// another one, and misses his gate.
func (gs *gates) resize(n int) {
	old := gs.heads.Load()
	heads := make([]atomic.Pointer[gate], n)
	if old != nil {
		for i := range *old {
			for g := (*old)[i].Load(); g != nil; {
				next := g.next.Load()
				gs.link(heads, g)
				g = next
			}
		}
	}
	gs.heads.Store(&heads)
}

// settle books what was granted at the account's gate, and shuts it, so that the state says
// all. The shard is locked.
func (s *Store) settle(acc *account, now instant) {
	if acc.gate != nil {
		acc.gate.Shut(&acc.state, s.clock.unixMicro(now))
	}
}

// worthGate reports whether an account that is asked after so long a pause will be asked again
// while a gate is open: for a window, that is for a sub-window at most.
func worthGate(l *driver.Limit, pause time.Duration) bool {
	lasts := l.Per
	if l.Algorithm == driver.SlidingWindow {
		lasts /= driver.SubWindows
	}
	return pause < min(lasts, 100*time.Millisecond)/2
}

// open opens the account to asks like the last one, if there was one like it before.
// The shard is locked, and the account settled.
func (s *Store) open(acc *account, key string, l *driver.Limit, now instant) {
	at := s.clock.unixMicro(now)
	if acc.gate == nil || !acc.gate.Serves(l) || acc.gate.Spent(at) {
		s.close(acc)
		acc.gate = &gate{key: key, hash: s.limits.hash(key), acc: acc}
		acc.gate.Init(*l, at)
		s.gatesOf(acc.gate.hash).put(acc.gate)
	}
	acc.gate.Open(&acc.state, at)
}

// close does away with the gate of an account that is settled. The shard is locked.
func (s *Store) close(acc *account) {
	if acc.gate != nil {
		s.gatesOf(acc.gate.hash).drop(acc.gate)
		acc.gate.acc, acc.gate = nil, nil
	}
}

func (s *Store) gatesOf(hash uint64) *gates { return &s.gates[hash%shards] }

// TakeQuick answers at the account's gate, if it is open.
func (b *backend) TakeQuick(key string, l driver.Limit, least, n int) (q driver.Quick, ok bool) {
	s := b.store
	hash := s.limits.hash(key)
	g := s.gatesOf(hash).find(hash, key, &l)
	if g == nil || b.closed.Load() {
		if !s.quick.Load() {
			s.quick.Store(true)
		}
		return q, false
	}
	word := g.Word() // before the clock is read
	if word < 0 {
		return q, false
	}
	return g.Take(word, s.clock.unixMicro(s.clock.now()), least, n)
}
