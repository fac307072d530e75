package conformance

import (
	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// kind is a kind of hold: how a Client takes it, and what it is at the store.
type kind struct {
	name   string
	locker func(*coord.Client) coord.Locker
	suffix string       // of the key under which package coord asks the store
	share  driver.Share // that it is
	barred driver.Share // that nobody is granted beside it
	whole  driver.Share // that takes all of the key
}

var (
	lockKind = &kind{"lock", func(c *coord.Client) coord.Locker { return c }, "", exclusive, exclusive, exclusive}
	readKind = &kind{"reader", func(c *coord.Client) coord.Locker { return c.ReadWrite().Read() }, "\x00r", reader, writer, writer}
	// A writer bars writers, too, but readers are the most that others may be.
	writeKind  = &kind{"writer", func(c *coord.Client) coord.Locker { return c.ReadWrite().Write() }, "\x00r", writer, reader, writer}
	permitKind = &kind{"permit", func(c *coord.Client) coord.Locker { return c.Semaphore(2) }, "\x00s", permits(1, 2), permits(2, 2), permits(2, 2)}
)

// String names such holds.
func (k *kind) String() string { return k.name }

// key is the key under which package coord asks the store.
func (k *kind) key(key string) string { return key + k.suffix }

func readWriteKey(key string) string { return readKind.key(key) }
func semaphoreKey(key string) string { return permitKind.key(key) }

// at is the part of a store that keeps such holds, whose calls an Injector names op.
func (k *kind) at(b driver.Backend) driver.Locker {
	if k == lockKind {
		return b
	}
	return b.Shared()
}

func (k *kind) op(name string) string {
	if k == lockKind {
		return name
	}
	return "Shared." + name
}
