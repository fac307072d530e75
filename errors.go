package coord

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/errs"
)

// The errors of coord. Match them with errors.Is; every error that a Client
// returns is an [*Error] around one or more of them.
var (
	// ErrLocked: someone else holds the key, or is in the queue for it. The message names the holder where the store's
	// refusal does.
	ErrLocked = driver.ErrLocked
	// ErrNotHeld: this lock is not held, or not any more.
	ErrNotHeld = driver.ErrNotHeld
	// ErrLost: the hold ended before it was unlocked. It is also ErrNotHeld.
	ErrLost = errs.ErrLost
	// ErrMaxHold: the hold reached its MaxHold. It is also ErrLost.
	ErrMaxHold = errs.ErrMaxHold
	// ErrLimited: a wait for permits ended without them.
	ErrLimited = errs.ErrLimited
	// ErrExceedsBurst: more permits were asked for than the limit can ever
	// grant at once.
	ErrExceedsBurst = errs.ErrExceedsBurst
	// ErrExceedsBound: more permits were asked for than the semaphore has.
	ErrExceedsBound = errs.ErrExceedsBound
	// ErrUnknownOutcome: the store may or may not have applied the call. What
	// a lock call may have left behind is being cleaned up; permits count as spent.
	ErrUnknownOutcome = errs.ErrUnknownOutcome
	// ErrUnavailable: the store could not be reached or did not serve the call.
	ErrUnavailable = driver.ErrUnavailable
	// ErrUnsupported: this store cannot do it; its Claims say so.
	ErrUnsupported = driver.ErrUnsupported
	// ErrInvalid: the call can never succeed; the message names the value and
	// the allowed range.
	ErrInvalid = driver.ErrInvalid
	// ErrCorrupt: what is stored under the key is not coord's. It was left as it is.
	ErrCorrupt = driver.ErrCorrupt
	// ErrClosed: the Client was closed.
	ErrClosed = driver.ErrClosed
)

// Error says which call failed on which store, and why.
type Error struct {
	// Op is the call: "lock", "unlock", "allow", …
	Op string
	// Backend is the store's name: "redis".
	Backend string
	// Key as the application gave it; "" where the call has none.
	Key string
	// RetryAfter is when it is worth trying again, where that is known: the
	// rest of the holder's lease, the time until permits are there, or until the store serves.
	RetryAfter time.Duration
	// Err is the cause.
	Err error
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("coord: ")
	b.WriteString(e.Op)
	if e.Key != "" {
		fmt.Fprintf(&b, " %q", e.Key)
	}
	if e.Backend != "" {
		b.WriteString(" on ")
		b.WriteString(e.Backend)
	}
	b.WriteString(": ")
	b.WriteString(e.Err.Error())
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, " (retry after %v)", e.RetryAfter.Truncate(min(e.RetryAfter, time.Millisecond)))
	}
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// fail builds the error of a public call.
func (c *Client) fail(op, key string, err error) error {
	return &Error{Op: op, Backend: c.info.Name, Key: key, Err: err}
}

// failLock is fail with the time after which the store said to try again.
func (c *Client) failLock(op, key string, err error) error {
	e := &Error{Op: op, Backend: c.info.Name, Key: key, Err: err}
	var locked *driver.LockedError
	if errors.As(err, &locked) {
		e.RetryAfter = locked.Remaining
	}
	var later *driver.NotYetError
	if errors.As(err, &later) {
		e.RetryAfter = later.After
	}
	return e
}
