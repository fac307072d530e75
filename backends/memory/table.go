package memory

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

const (
	shards = 64 // a power of two
	// sweepFloor is how many cells a shard may have before it is swept for
	// their number alone.
	sweepFloor = 256
	// sweepEvery is how long forgotten keys of a shard in use stay at most.
	sweepEvery = time.Minute
)

// table is a map in shards, each under a mutex of its own, which forgets idle
// cells in passing.
//
// A shard is swept when it has twice as many cells as the last sweep left, so
// that the sweeps cost a constant per insertion, and when it is used a minute
// after the last sweep. A sweep by time takes one other shard along, in turn,
// so that shards which nobody uses any more are emptied too.
type table[V any] struct {
	seed   maphash.Seed
	idle   func(*V, instant) bool
	turn   atomic.Uint32
	shards [shards]shard[V]
}

type shard[V any] struct {
	sync.Mutex
	cells map[string]*V
	full  int     // cells at which the next sweep comes
	due   instant // when it comes at the latest

	spare *V // a zero cell that nobody knows of, for the next key; or nil

	// What get found last, which a hot key asks for again; nil if nothing.
	hotKey string
	hot    *V

	_ [64]byte
}

// get finds the cell of key, nil if there is none. The caller has locked sh.
func (sh *shard[V]) get(key string) *V {
	if sh.hot != nil && sh.hotKey == key {
		return sh.hot
	}
	return sh.find(key)
}

func (sh *shard[V]) find(key string) *V {
	v := sh.cells[key]
	sh.hotKey, sh.hot = key, v
	return v
}

// set replaces the cell of key, or with nil removes it. The caller has locked sh.
func (sh *shard[V]) set(key string, v *V) {
	sh.hotKey, sh.hot = "", nil
	if v == nil {
		delete(sh.cells, key)
	} else {
		sh.cells[key] = v
	}
}

// fresh gives a zero cell. The caller has locked sh.
func (sh *shard[V]) fresh() *V {
	v := sh.spare
	if v == nil {
		return new(V)
	}
	sh.spare = nil
	return v
}

func (t *table[V]) init(idle func(*V, instant) bool) {
	t.seed = maphash.MakeSeed()
	t.idle = idle
	for i := range t.shards {
		t.shards[i].full = sweepFloor
		t.shards[i].due = sweepEvery
	}
}

// index gives the shard of key.
func (t *table[V]) index(key string) int { return int(maphash.String(t.seed, key) % shards) }

// add puts a new cell into sh, which the caller has locked.
func (t *table[V]) add(sh *shard[V], key string, v *V, now instant) {
	if len(sh.cells) >= sh.full {
		t.sweep(sh, now)
	}
	if sh.cells == nil {
		sh.cells = make(map[string]*V)
	}
	sh.set(key, v)
}

// tidy sweeps sh, which the caller has locked, and one other shard. The caller
// has found that now is past sh.due.
func (t *table[V]) tidy(sh *shard[V], now instant) {
	t.sweep(sh, now)
	other := &t.shards[t.turn.Add(1)%shards]
	// Another locked shard is in use, and so sweeps itself; sh is locked, too.
	if other.TryLock() {
		t.sweep(other, now)
		other.Unlock()
	}
}

// sweep keeps the cells in use. It makes a new map, because a map does not give
// back the room of cells that were deleted.
func (t *table[V]) sweep(sh *shard[V], now instant) {
	kept := 0
	for _, v := range sh.cells {
		if !t.idle(v, now) {
			kept++
		}
	}
	if kept < len(sh.cells) {
		cells := make(map[string]*V, kept)
		for k, v := range sh.cells {
			if !t.idle(v, now) {
				cells[k] = v
			}
		}
		sh.cells = cells
		sh.hotKey, sh.hot = "", nil
	}
	sh.full = max(sweepFloor, 2*kept)
	sh.due = now + sweepEvery
}

// size counts the cells.
func (t *table[V]) size() int {
	n := 0
	for i := range t.shards {
		sh := &t.shards[i]
		sh.Lock()
		n += len(sh.cells)
		sh.Unlock()
	}
	return n
}
