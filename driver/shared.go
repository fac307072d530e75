package driver

import (
	"context"
	"fmt"
	"iter"
	"time"
)

// Mode is how a hold shares its key with other holds.
type Mode uint8

// The modes.
const (
	// Exclusive is the mode of [Locker]. A [SharedLocker] is not asked for it.
	Exclusive Mode = iota
	// Read: beside any number of readers.
	Read
	// Write: alone.
	Write
	// Permits: beside others, as long as the weights of all are within the bound.
	Permits
)

// String gives "exclusive", "read", "write" or "permits".
func (m Mode) String() string {
	if names := [...]string{"exclusive", "read", "write", "permits"}; int(m) < len(names) {
		return names[m]
	}
	return fmt.Sprintf("mode %d", m)
}

// MaxPermits is the most permits of a semaphore.
const MaxPermits = 1 << 52

// HeadFor is how long a refused request with Share.Head keeps others from being granted, unless it is
// repeated.
const HeadFor = time.Second

// Share says how a hold shares its key. The zero Share is an exclusive hold.
type Share struct {
	Mode Mode
	// Weight is how many permits a hold with Permits takes, Of how many there are at most: 1 <= Weight <= Of <=
	// MaxPermits. Both are 0 with Read and Write.
	Weight, Of int64
	// Head says that the request is at the head of the queue for its key, which package coord keeps. If it
	// is refused, the store grants the key to nobody else for HeadFor, or until Unlock of its id. A store without
	// a clock does so until Unlock, or until the lease or session of the client ends.
	Head bool
}

// Check refuses, with ErrInvalid, what no SharedLocker is asked for.
func (s Share) Check() error {
	switch s.Mode {
	case Read, Write:
		if s.Weight == 0 && s.Of == 0 {
			return nil
		}
		return fmt.Errorf("%w: %d of %d permits for a mode of %v: want none", ErrInvalid, s.Weight, s.Of, s.Mode)
	case Permits:
		if 1 <= s.Weight && s.Weight <= s.Of && s.Of <= MaxPermits {
			return nil
		}
		return fmt.Errorf("%w: %d of %d permits: want at least 1, at most all, of at most %d", ErrInvalid, s.Weight, s.Of, int64(MaxPermits))
	}
	return fmt.Errorf("%w: a shared hold in mode %v: want read, write or permits", ErrInvalid, s.Mode)
}

// Fits reports whether a hold of s may be live beside one of other, as far as these two go. The
// weights of permits are added up by the caller.
func (s Share) Fits(other Share) bool { return s.Mode != Write && other.Mode != Write }

// Shrunk is s, lowered to what want asks for: a reader instead of a writer, or fewer permits. What want asks beyond s is
// not given.
func (s Share) Shrunk(want Share) Share {
	switch {
	case s.Mode == Write && want.Mode == Read:
		s.Mode = Read
	case s.Mode == Permits && want.Mode == Permits && want.Weight > 0:
		s.Weight = min(s.Weight, want.Weight)
	}
	return s
}

// SharedLocker keeps keys that several hold at once. Its keys are a space of their own: it never shares state
// with locks or limits of the same key. An adapter embeds [Unimplemented] here too.
//
// It waits for nobody, and has no queue. Package coord queues in the exclusive lock of the same key, so
// that only the first in the queue asks again, with Share.Head.
//
// Its methods are those of [Locker] and [Breaker], but for what follows. UnlockAfter is never called.
//
// TryLock grants r.Share if all of this holds, and the live holds of the key are those whose lease has not ended:
//
//   - no other id is the head, that is, was refused with Share.Head less than HeadFor ago;
//   - for Read: no live hold is a writer's; for Write: there is no live hold;
//   - for Permits: the weights of all live holds and of r together are at most the least Share.Of among them and r.
//
// A hold that was broken is live until its lease ends. A grant ends the headship of its id. Token is greater than
// those of all earlier holds of the key, also of those that are live. Slot is the lowest number from 0 that no live
// hold of the key has. More than [MaxHolders] live holds are ErrUnsupported, or fewer where the store says so.
// A repeated request of a live id gives the same Token and Slot.
//
// Renew with a smaller Share makes the hold smaller in the same step, as [Share.Shrunk] says, and never greater.
//
// Unlock of an id that is the head ends its headship, and is no error.
type SharedLocker interface {
	Locker
	Breaker
	// Holders gives the live holds of a key, those that were broken too, with Released. It is empty if
	// there is none.
	Holders(ctx context.Context, key string) ([]Holder, error)
	// List is that of [Operator], for keys that have live holds.
	List(ctx context.Context, prefix string) iter.Seq2[string, error]
	// NotifyChanges pushes changes of a key to the head of its queue. It calls changed once it listens, and then whenever
	// the store has granted less of key than before, until ctx ends. The end of a lease may go without. It returns when
	// ctx ends, or when it cannot listen, or not any more: then the head polls. changed does not block. It may be called
	// too often.
	NotifyChanges(ctx context.Context, key string, changed func()) error
}

// MaxHolders is the most live holds of one key.
const MaxHolders = 1024
