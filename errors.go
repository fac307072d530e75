package coord

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coordgo/coord/driver"
)

// The errors of coord. Match them with errors.Is; every error that a Client
// returns is an [*Error] around one or more of them.
var (
	// ErrLocked: someone else holds the key, or is in line for it.
	ErrLocked = driver.ErrLocked
	// ErrNotHeld: this lock is not held, or not any more.
	ErrNotHeld = driver.ErrNotHeld
	// ErrLost: the hold ended before it was unlocked. It is also ErrNotHeld.
	ErrLost error = &kind{"lock lost", ErrNotHeld}
	// ErrMaxHold: the hold reached its MaxHold. It is also ErrLost.
	ErrMaxHold error = &kind{"lock held for its MaxHold", ErrLost}
	// ErrLimited: a wait for permits ended without them.
	ErrLimited = errors.New("limited")
	// ErrExceedsBurst: more permits were asked for than the limit can ever
	// grant at once.
	ErrExceedsBurst = errors.New("more permits than the limit ever grants at once")
	// ErrUnknownOutcome: the store may or may not have applied the call. What
	// a lock call may have left behind is being cleaned up; permits count as spent.
	ErrUnknownOutcome = errors.New("outcome unknown")
	// ErrUnavailable: the store could not be reached or did not serve the call.
	ErrUnavailable = errors.New("store unavailable")
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

// errClosedHold ends the holds of a client that closes.
var errClosedHold error = &kind{"lock given back by Close", errors.Join(ErrClosed, ErrLost)}

// kind is a sentinel that is also the one it refines.
type kind struct {
	text   string
	parent error
}

func (k *kind) Error() string { return k.text }
func (k *kind) Unwrap() error { return k.parent }

// Error says which call failed on which store, and why.
type Error struct {
	// Op is the call: "lock", "unlock", "allow", …
	Op string
	// Backend is the store's name: "redis".
	Backend string
	// Key as the application gave it; "" where the call has none.
	Key string
	// RetryAfter is when it is worth trying again, where that is known: the
	// rest of the holder's lease, or the time until permits are there.
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
		fmt.Fprintf(&b, " (retry after %v)", e.RetryAfter)
	}
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// chain is several errors told on one line, as "first: second". It is used by
// pointer, so that errors can be compared.
type chain struct{ errs []error }

func chainOf(errs ...error) error { return &chain{errs} }

func (c *chain) Error() string {
	texts := make([]string, 0, len(c.errs))
	for _, err := range c.errs {
		if s := err.Error(); len(texts) == 0 || texts[len(texts)-1] != s {
			texts = append(texts, s)
		}
	}
	return strings.Join(texts, ": ")
}

func (c *chain) Unwrap() []error { return c.errs }

// ctxError is why ctx ended: it matches both ctx.Err() and its cause.
func ctxError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if err == nil || errors.Is(cause, err) {
		return cause
	}
	return chainOf(err, cause)
}

// awaitEnd lets ctx end if it is about to. A client library gives ctx's deadline to
// its socket, whose timer may fire before ctx's own, on a busy machine long before: what
// timed out then has timed out with ctx.
func awaitEnd(ctx context.Context) {
	const moment = time.Millisecond
	d, ok := ctx.Deadline()
	if !ok || ctx.Err() != nil || time.Until(d) > moment {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(50 * moment): // a context whose Done does not keep its deadline
	}
}

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
	return e
}

// storeError classifies what a driver's call returned. mutating says that an
// error which is not definite leaves the outcome unknown.
func storeError(ctx context.Context, err error, mutating bool) error {
	notSent := errors.Is(err, driver.ErrNotSent)
	if !notSent && driver.Definite(err) {
		return err
	}
	awaitEnd(ctx)
	var errs []error
	if !errors.Is(ctx.Err(), context.Canceled) { // a caller who left says nothing of the store
		errs = append(errs, ErrUnavailable)
	}
	if mutating && !notSent {
		errs = append(errs, ErrUnknownOutcome)
	}
	if ctx.Err() != nil {
		errs = append(errs, ctxError(ctx))
	}
	return chainOf(append(errs, err)...)
}
