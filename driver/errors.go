package driver

import (
	"context"
	"errors"
	"fmt"
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
	ErrClosed = errors.New("closed")
)

// Definite reports whether err says for certain that a call changed nothing.
// After any other error the outcome is unknown.
func Definite(err error) bool {
	for _, target := range [...]error{ErrLocked, ErrNotHeld, ErrInvalid, ErrUnsupported, ErrNotSent, ErrCorrupt, ErrClosed} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// NotSent marks err as that of a call of which the store has certainly applied nothing: it matches ErrNotSent too. One
// that says so already, see [Definite], stays as it is, and so does nil. That of a context that ended is marked whatever
// its cause matches: ErrNotHeld, if a lock was lost, is not what became of this call.
func NotSent(err error) error {
	ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if err == nil || errors.Is(err, ErrNotSent) || Definite(err) && !ended {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotSent, err)
}

// ContextError gives the error of a call that stopped because ctx ended. It matches ctx.Err() and the cause. If nothing
// was sent, say so: NotSent(ContextError(ctx)).
func ContextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if err == nil || errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// LockedError is ErrLocked together with what the store knows of the lease in
// the way. The core times its next attempt by it.
type LockedError struct {
	// Remaining is what is left of the holder's lease; without renewal the
	// key is free after it.
	Remaining time.Duration
}

func (e *LockedError) Error() string { return ErrLocked.Error() }

// Is makes errors.Is(err, ErrLocked) true.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }
