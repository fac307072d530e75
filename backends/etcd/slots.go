package etcd

import (
	"crypto/rand"
	"encoding/hex"

	"github.com/coordgo/coord/driver"
)

// slots are the numbers that this client uses in a line, for the names of its entries.
// The smallest ones are used again and again.
type slots struct {
	next int   // none from here on was used
	free []int // given back
	used int
}

// noSlot is the slot of an entry whose name is not one of this client's.
const noSlot = -1

// takeSlot gives a number that no entry of this client in the line of key has. backend.mu is
// held.
func (b *backend) takeSlot(key string) int {
	s := b.slots[key]
	if s == nil {
		s = &slots{}
		b.slots[key] = s
	}
	s.used++
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		return i
	}
	s.next++
	return s.next - 1
}

// giveSlot gives one back. backend.mu is held.
func (b *backend) giveSlot(key string, i int) {
	if i == noSlot {
		return
	}
	s := b.slots[key]
	s.free = append(s.free, i)
	b.unuse(key, s)
}

// burnSlots gives up n numbers whose names were taken by what this client does not know
// of. They are tried again when it has nothing in the line any more.
func (b *backend) burnSlots(key string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range n {
		b.unuse(key, b.slots[key])
	}
}

// keepSlot takes the slot from the entry of p, so that its name stays in use when the entry
// is dropped.
func (b *backend) keepSlot(p place) (slot int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	slot = noSlot
	if e := b.entries[p]; e != nil {
		slot, e.slot = e.slot, noSlot
	}
	return slot
}

// returnSlot undoes keepSlot. backend.mu is held.
func (b *backend) returnSlot(p place, slot int) {
	if e := b.entries[p]; e != nil && e.slot == noSlot && slot != noSlot && e.name == b.names.slot(p.key, b.tag, slot) {
		e.slot = slot
		return
	}
	b.giveSlot(p.key, slot)
}

// nameOf chooses the name of an entry that is to be made in an empty line. A key that this client
// has locked before gets a name of this client's own, which it can delete without a look.
func (b *backend) nameOf(key string) (name string, slot int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.known[key] {
		return b.names.free(key), noSlot
	}
	slot = b.takeSlot(key)
	return b.names.slot(key, b.tag, slot), slot
}

// maxKnown bounds how many keys are remembered as locked before.
const maxKnown = 4096

// know remembers that key was locked. backend.mu is held.
func (b *backend) know(key string) {
	if b.known[key] {
		return
	}
	if len(b.known) >= maxKnown {
		clear(b.known)
	}
	b.known[key] = true
}

// ungive gives back a slot for whose name there is no entry. After an unknown outcome there may be
// one yet: then no name is used again.
func (b *backend) ungive(key string, slot int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if slot != noSlot && err != nil && !driver.Definite(err) {
		b.tag = newTag()
	}
	b.giveSlot(key, slot)
}

func (b *backend) unuse(key string, s *slots) {
	if s.used--; s.used == 0 {
		delete(b.slots, key)
	}
}

// newTag tells this client's names from those of others.
func newTag() string {
	var random [8]byte
	rand.Read(random[:])
	return hex.EncodeToString(random[:])
}
