// Package errs classifies what goes wrong in a store, in terms of the errors that coord exports.
package errs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coordgo/coord/driver"
)

// The errors of package coord that its engines return. They are documented there.
var (
	ErrLimited        = errors.New("limited")
	ErrUnknownOutcome = errors.New("outcome unknown")
	ErrExceedsBurst   = errors.New("more permits than the limit ever grants at once")
	ErrExceedsBound   = errors.New("more permits than the semaphore has")
	ErrLost           = Kind("lock lost", driver.ErrNotHeld)
	ErrMaxHold        = Kind("lock held for its MaxHold", ErrLost)
)

// kind is a sentinel that is also the one it refines.
type kind struct {
	text   string
	parent error
}

// Kind makes a sentinel error that also matches parent.
func Kind(text string, parent error) error { return &kind{text, parent} }

func (k *kind) Error() string { return k.text }
func (k *kind) Unwrap() error { return k.parent }

// chain is several errors on one line, as "first: second". It is used by pointer, so that
// errors can be compared.
type chain struct{ errs []error }

// Chain is one error that matches each of errs.
func Chain(errs ...error) error { return &chain{errs} }

// Error leaves out what a later text has too, and that a call was not applied, where a reason follows: that is for
// programs.
func (c *chain) Error() string {
	texts := make([]string, 0, len(c.errs))
	for _, err := range c.errs {
		s := strings.ReplaceAll(err.Error(), driver.ErrNotSent.Error()+": ", "")
		texts = append(slices.DeleteFunc(texts, func(t string) bool { return strings.Contains(s, t) }), s)
	}
	return strings.Join(texts, ": ")
}

func (c *chain) Unwrap() []error { return c.errs }

// ContextError is the error of a call that stopped because ctx ended. It matches ctx.Err() and the cause. Drivers give
// ctx.Err() alone.
func ContextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if err == nil || errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// HasEnded reports whether ctx has ended, or is about to: of two timers for one moment either may be first.
func HasEnded(ctx context.Context) bool {
	d, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(d)
}

// AwaitEnd lets ctx end if it is about to. A client library gives ctx's deadline to
// its socket, whose timer may fire before ctx's own, on a busy machine long before: what
// timed out then has timed out with ctx.
func AwaitEnd(ctx context.Context) {
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

// OfStore classifies what a driver's call returned. mutating says that an
// error which is not definite leaves the outcome unknown.
func OfStore(ctx context.Context, err error, mutating bool) error {
	notSent := errors.Is(err, driver.ErrNotSent)
	if !notSent && driver.Definite(err) {
		return err
	}
	AwaitEnd(ctx)
	var errs []error
	if !errors.Is(ctx.Err(), context.Canceled) { // a caller who left says nothing of the store
		errs = append(errs, driver.ErrUnavailable)
	}
	if mutating && !notSent {
		errs = append(errs, ErrUnknownOutcome)
	}
	if ctx.Err() != nil {
		errs = append(errs, ContextError(ctx))
	}
	return Chain(append(errs, err)...)
}
