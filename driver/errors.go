package driver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// The definite errors. After one of them the call is known to have changed
// nothing (for ErrNotHeld: there was nothing of the id's to change).
var (
	// ErrLocked: another id holds the key, or waits in the queue before this one.
	ErrLocked = errors.New("locked by another holder")
	// ErrNotHeld: this id does not hold the key, or holds it no longer.
	ErrNotHeld = errors.New("not held")
	// ErrInvalid: the call can never succeed; the message names the value
	// and the allowed range. One that the state of the store explains, so that
	// the same call may succeed later, has a method Temporary() bool that says
	// so, and likewise an ErrUnsupported: what goes on over outages goes on then.
	ErrInvalid = errors.New("invalid argument")
	// ErrUnsupported: this store cannot do it.
	ErrUnsupported = errors.New("not supported by this store")
	// ErrNotSent: the store certainly did not apply the call. It was never
	// sent, or the store refused it before it did anything.
	ErrNotSent = errors.New("not applied by the store")
	// ErrCorrupt: what is stored under the key is not coord's. It was left as it is.
	ErrCorrupt = errors.New("stored value is not coord's")
	// ErrClosed: the backend was closed before the call.
	ErrClosed = errors.New("the client was closed")
)

// ErrUnavailable: the store could not be reached or did not serve the call. [Open] and package coord add it to the
// errors of adapters.
var ErrUnavailable = errors.New("store unavailable")

// Definite reports whether err says for certain that a call changed nothing.
// After any other error the outcome is unknown. One that matches the error of a context says so only if it matches
// ErrNotSent: the cause of a context, such as ErrNotHeld of a lost lock, is not the store's answer.
func Definite(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return errors.Is(err, ErrNotSent)
	}
	for _, target := range [...]error{ErrLocked, ErrNotHeld, ErrInvalid, ErrUnsupported, ErrNotSent, ErrCorrupt, ErrClosed} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// NotSent marks err as that of a call of which the store has certainly applied nothing: it matches ErrNotSent too. One
// that says so already, see [Definite], stays as it is, and so does nil. A call that stopped because its context ended
// gives ctx.Err() without the cause, which package coord adds; if nothing was sent, NotSent(ctx.Err()).
func NotSent(err error) error {
	if err == nil || Definite(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotSent, err)
}

// LockedError is ErrLocked together with what the store knows of the lease in
// the way. The core times its next attempt by it.
type LockedError struct {
	// Remaining is what is left of the holder's lease; without renewal the
	// key is free after it.
	Remaining time.Duration
	// Holder is the id that holds the key, for people to read. It is empty if nobody does, as of a key that is only kept
	// taken, if several do, and if the store's refusal does not tell: it is never worth another request.
	Holder string
}

func (e *LockedError) Error() string {
	switch h := NewHolder(e.Holder, 0, 0); {
	case e.Holder == "":
		return ErrLocked.Error()
	case h.Name == "":
		return "locked by " + strconv.Quote(e.Holder)
	default:
		return fmt.Sprintf("locked by %s (pid %d)", h.Name, h.PID)
	}
}

// Is makes errors.Is(err, ErrLocked) true.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// NotYetError is Err of a store that does not serve the call yet, and knows when it will. A wait of the core that may last
// so long goes on; one that may not ends at once.
type NotYetError struct {
	// After is how long it takes until then.
	After time.Duration
	// Err is why. It says, as any error, whether the call has changed nothing: see [Definite].
	Err error
}

func (e *NotYetError) Error() string { return e.Err.Error() }

// Unwrap gives Err.
func (e *NotYetError) Unwrap() error { return e.Err }
