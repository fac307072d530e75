package driver

import (
	"context"
	"iter"
	"time"
)

// Unimplemented answers for what a store cannot do. An adapter embeds it in its [Backend] and in its [SharedLocker], and
// writes what its store can: it goes on compiling when an interface grows. Its locks, limits and operator's calls are
// ErrUnsupported; it describes nothing, finds nothing, and is of one part.
type Unimplemented struct{}

// TryLock is ErrUnsupported.
func (Unimplemented) TryLock(context.Context, string, Request) (Grant, error) {
	return Grant{}, ErrUnsupported
}

// Renew is ErrUnsupported.
func (Unimplemented) Renew(context.Context, string, Request) (Grant, error) {
	return Grant{}, ErrUnsupported
}

// Unlock is ErrUnsupported.
func (Unimplemented) Unlock(context.Context, string, string) error { return ErrUnsupported }

// UnlockAfter is ErrUnsupported.
func (Unimplemented) UnlockAfter(context.Context, string, string, time.Duration) error {
	return ErrUnsupported
}

// RenewAll gives nil: the core renews one by one.
func (Unimplemented) RenewAll(context.Context, []Hold) []Renewal { return nil }

// NotifyLost tells fn of nothing.
func (Unimplemented) NotifyLost(func(key, id string, cause error)) {}

// Lock is ErrUnsupported.
func (Unimplemented) Lock(context.Context, string, Request, func()) (Grant, error) {
	return Grant{}, ErrUnsupported
}

// Take is ErrUnsupported.
func (Unimplemented) Take(context.Context, string, Limit, []Ask) (Taken, error) {
	return Taken{}, ErrUnsupported
}

// TakeOne is ErrUnsupported.
func (Unimplemented) TakeOne(context.Context, string, Limit, Ask) (TakenOne, error) {
	return TakenOne{}, ErrUnsupported
}

// TakeAll is ErrUnsupported.
func (Unimplemented) TakeAll(context.Context, []Demand) ([]Taken, error) { return nil, ErrUnsupported }

// Reset is ErrUnsupported.
func (Unimplemented) Reset(context.Context, string, Limit) error { return ErrUnsupported }

// Refund is ErrUnsupported.
func (Unimplemented) Refund(context.Context, string, Limit, string, int) error { return ErrUnsupported }

// Charge is ErrUnsupported.
func (Unimplemented) Charge(context.Context, string, Limit, int) (Charged, error) {
	return Charged{}, ErrUnsupported
}

// Ping is ErrUnsupported: that of a client succeeds then.
func (Unimplemented) Ping(context.Context) error { return ErrUnsupported }

// Describe tells nothing.
func (Unimplemented) Describe(context.Context) (map[string]string, error) { return nil, nil }

// Check finds nothing.
func (Unimplemented) Check(context.Context) ([]Finding, error) { return nil, nil }

// Inspect is ErrUnsupported.
func (Unimplemented) Inspect(context.Context, string) (Holder, error) {
	return Holder{}, ErrUnsupported
}

// List is ErrUnsupported.
func (Unimplemented) List(context.Context, string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) { yield("", ErrUnsupported) }
}

// Break is ErrUnsupported.
func (Unimplemented) Break(context.Context, string, string) error { return ErrUnsupported }

// BreakNow is ErrUnsupported.
func (Unimplemented) BreakNow(context.Context, string, string) error { return ErrUnsupported }

// Shared shares nothing.
func (Unimplemented) Shared() SharedLocker { return Unimplemented{} }

// Holders is ErrUnsupported.
func (Unimplemented) Holders(context.Context, string) ([]Holder, error) { return nil, ErrUnsupported }

// NotifyChanges is ErrUnsupported: the head of a queue polls.
func (Unimplemented) NotifyChanges(context.Context, string, func()) error { return ErrUnsupported }

// Partition gives "".
func (Unimplemented) Partition(string) string { return "" }
