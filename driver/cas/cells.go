package cas

import (
	"context"
	"time"
)

// Kind separates the cells of locks, of limits and of shared holds.
type Kind byte

// The kinds.
const (
	Lock Kind = iota + 1
	Limit
	Shared
)

// String gives "lock", "limit" or "shared".
func (k Kind) String() string {
	switch k {
	case Limit:
		return "limit"
	case Shared:
		return "shared"
	}
	return "lock"
}

// Name names a cell. Names that differ in any field are different cells.
type Name struct {
	Kind Kind
	// Key is what the application locks or limits: any bytes, at least one.
	Key string
	// State tells the limits of one key apart: short, printable ASCII, like
	// "sw:60000000". It is "" for all others.
	State string
}

// Change says what becomes of a cell. The zero Change leaves it as it is.
type Change struct {
	// Write replaces the value.
	Write bool
	// Value is the new one; nil removes the cell.
	Value []byte
	// Keep is how long, from now, the cell must be kept at least. Afterwards
	// its absence means the same, and the store should collect it.
	Keep time.Duration
}

// Func decides what becomes of a cell. old is its value, nil if there is none;
// now is the store's clock. Func may be called several times for one update, does not
// keep old, and changes nothing else before its last call is known to be
// the last. An error of Func leaves the cell as it is.
type Func func(old []byte, now time.Time) (Change, error)

// Cells are the values of a store.
type Cells interface {
	// Update replaces the cell by what fn makes of it, in one atomic step.
	//
	// It returns an error of fn as it is. Its own errors follow the rule of
	// package driver: after one for which driver.Definite is false, the change may
	// have been made or may yet be made. It returns within ctx plus 100 ms, and
	// does not end because of contention alone before ctx does. A value that the
	// store finds damaged is driver.ErrCorrupt. It is safe for concurrent use.
	Update(ctx context.Context, name Name, fn Func) error
	// Close gives back what the cells opened. It is called once.
	Close() error
}
