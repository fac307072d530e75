package coord

import (
	"context"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/errs"
)

// Observer receives what a Client does, for metrics, traces and logs; package
// otelcoord has one for OpenTelemetry. Every field is optional, and more may be
// added: name the fields that you set. A Client without an observer pays nothing.
//
// The functions are called where things happen, so they must be quick, safe for
// concurrent use, and must not call the Client or its locks: a slow one delays
// the call, or the release, that it is called for, though never the moment at which a
// loss is seen. If one panics, the Client logs it, once for each field, and goes on.
//
// The events of one hold, and of one token of a hold that is handed on inside the
// client, come one after the other: Acquired first, then Renewed,
// RenewFailed and Reentered, and last exactly one of Released and Lost. Lost comes after Done
// has closed, before anything is sent to free the key, and before an Unlock or a Do that fails
// because of it returns. The order of events of
// different holds, in different goroutines, is not defined.
//
// Keys are as the application gave them, and can be as many as it has users and
// orders: do not make them labels of a metric.
type Observer struct {
	// CallBegan is called when a call begins, and gives the context for the rest of
	// it: ctx, or ctx with a value more, such as a span. It is called for those
	// that take their time: "lock", "trylock", "do", "trydo" and "wait"; a
	// "do" contains a "lock". CallEnded gets that context.
	CallBegan func(ctx context.Context, c Call) context.Context
	CallEnded func(ctx context.Context, c CallEnded)

	// WaitBegan: a Lock cannot have its key at once. WaitEnded follows, whatever comes of it.
	WaitBegan func(ctx context.Context, e WaitBegan)
	WaitEnded func(ctx context.Context, e WaitEnded)
	// Acquired: a key is held from now on. ctx is that of the call; so is that of
	// Reentered and Refused.
	Acquired func(ctx context.Context, e Acquired)
	// Reentered: an owner has one handle more on what it holds, or shares an
	// attempt of its own.
	Reentered func(ctx context.Context, e Reentered)
	// Refused: a Lock or TryLock has failed.
	Refused func(ctx context.Context, e Refused)
	// Renewed and RenewFailed: the lease was, or was not, made longer. ctx is, as that of
	// Lost, what the caller gave to the call that acquired the lock, and may have ended.
	Renewed     func(ctx context.Context, e Renewed)
	RenewFailed func(ctx context.Context, e RenewFailed)
	// Lost: the hold has ended before it was unlocked.
	Lost func(ctx context.Context, e Lost)
	// Released: the last handle of the hold was unlocked. ctx is Unlock's.
	Released func(ctx context.Context, e Released)

	// Allowed, Denied and Degraded are the decisions of limits: by Allow and its kin, by
	// Wait, Reserve, and of AllowAll one for each demand that was granted or stood in
	// the way. Peek takes nothing and is not told. Degraded: the failure policy
	// admitted what the store could not decide.
	Allowed  func(ctx context.Context, e Decision)
	Denied   func(ctx context.Context, e Decision)
	Degraded func(ctx context.Context, e Decision)

	// Charged: permits were debited, or given back, by Charge or Settle.
	Charged func(ctx context.Context, e Decision)

	// LeaseEnded: permits that were taken in advance, under WithPermitLease, were all spent, or are
	// over. ctx is nobody's.
	LeaseEnded func(ctx context.Context, e LeaseEnded)

	// StoreCalled: the store was asked something. StoreCall.Failed tells failures from answers.
	StoreCalled func(ctx context.Context, e StoreCall)
}

// WithObserver calls the functions of o for what the Client does. Given several
// times, each observer is called, in that order.
func WithObserver(o Observer) Option {
	return func(s *settings) error {
		s.observers = append(s.observers, o)
		return nil
	}
}

// Call is a call of the application.
type Call struct {
	// Op is "lock", "trylock", "do", "trydo" or "wait".
	Op string
	// Backend is the store's name: "redis".
	Backend string
	Key     string
	// Limit and N of a "wait".
	Limit Limit
	N     int
}

// CallEnded is a call that is over.
type CallEnded struct {
	Call
	Took    time.Duration
	Outcome Outcome
	// Err is what the call returns; ErrLocked of a "trydo" that did not run its function, nil
	// if that panicked.
	Err      error
	Panicked bool
}

// LockEvent says which lock an event is about.
type LockEvent struct {
	// Backend is the store's name: "redis".
	Backend string
	Key     string
	// Mode is what was asked for: driver.Exclusive, or Read, Write or Permits of a shared key.
	Mode driver.Mode
	// Owner names the owner in ctx, as logs do; "" without one.
	Owner string
	// ID names the hold at the store, as Holder.ID does; "" before there is one.
	ID string
	// Token is the hold's fencing token; 0 before there is one.
	Token Token
}

// WaitBegan is a Lock that cannot have its key at once.
type WaitBegan struct {
	LockEvent
	// HeldBy is the ID of the hold that this client has of the key, "" if another
	// client holds it.
	HeldBy string
}

// WaitEnded is the end of what WaitBegan began.
type WaitEnded struct {
	LockEvent
	Waited  time.Duration
	Outcome Outcome
	Err     error
}

// Acquired is a lock that was granted.
type Acquired struct {
	LockEvent
	// Waited since the call.
	Waited time.Duration
	Way    Way
	// TTL of the lease.
	TTL time.Duration
}

// Way is how a lock was had. It is also the text for metrics.
type Way string

const (
	// WayFree: nobody was in the way.
	WayFree Way = "free"
	// WayLocal: behind others of this client, and then at once.
	WayLocal Way = "local"
	// WayHanded: from another goroutine of this client, without asking the store.
	WayHanded Way = "handed"
	// WayPolled: by asking the store again.
	WayPolled Way = "polled"
	// WayQueued: in the store's own queue.
	WayQueued Way = "queued"
)

// Reentered is one handle more on a hold.
type Reentered struct {
	LockEvent
	// Waited since the call, where the owner's attempt was still on its way.
	Waited time.Duration
	// Depth is how many handles there are now.
	Depth int
}

// Refused is a Lock or TryLock that failed.
type Refused struct {
	LockEvent
	Waited  time.Duration
	Outcome Outcome
	Err     error
}

// Renewed is a lease that was made longer.
type Renewed struct {
	LockEvent
	// TTL of the lease.
	TTL time.Duration
	// Took is how long the store took to answer.
	Took time.Duration
}

// RenewFailed is a renewal that failed and will be tried again until Left is over.
type RenewFailed struct {
	LockEvent
	Took time.Duration
	// Left until the hold is lost.
	Left time.Duration
	Err  error
}

// Lost is a hold that ended before it was unlocked.
type Lost struct {
	LockEvent
	Held   time.Duration
	Reason LossReason
	// Err is ErrLost, and more.
	Err error
}

// LossReason is why a hold was lost. It is also the text for metrics.
type LossReason string

const (
	// LossExpired: the lease was not renewed in time.
	LossExpired LossReason = "expired"
	// LossMaxHold: the hold reached its MaxHold.
	LossMaxHold LossReason = "max_hold"
	// LossRevoked: the store said that the hold is gone; someone broke it, or the store lost it.
	LossRevoked LossReason = "revoked"
	// LossClosed: the Client was closed.
	LossClosed LossReason = "closed"
)

// Released is a hold that was unlocked.
type Released struct {
	LockEvent
	// Held from the grant until the last Unlock.
	Held time.Duration
	// Took is how long the store took to confirm.
	Took time.Duration
	// HandedOver: the hold went to the next waiter of this client under its own ID, and the
	// store was not asked.
	HandedOver bool
	// Err is set if the store did not confirm: the key is being freed in the background.
	Err error
}

// Decision is what came of a request for permits.
type Decision struct {
	// Op is "allow", "allowall", "wait" or "reserve"; of Charged it is "charge" or "settle".
	Op string
	// Backend is the store's name: "redis".
	Backend string
	Key     string
	Limit   Limit
	// Asked and Granted permits. Of Charged both are what was debited, below 0 what was to be given back.
	Asked, Granted int
	// Remaining permits that could be had at once, -1 where that is not known.
	Remaining int
	// RetryAfter, of a denial; of Charged it is when one permit is there.
	RetryAfter time.Duration
	// Took is how long the decision took; of a "wait", with the waiting.
	Took time.Duration
	// Delay until the permits of a "reserve" are due.
	Delay time.Duration
	// Cached: the denial was remembered, and the store was not asked.
	Cached bool
	// Leased: the permits had been taken in advance, and the store was not asked.
	Leased bool
	// Shadow: it is the decision of a rule in shadow mode, of package rules, and nobody acts upon it.
	Shadow bool
	// Err is the store's error, of Degraded, or why a "wait" ended.
	Err error
}

// LeaseEnded is permits that were taken in advance and are over.
type LeaseEnded struct {
	// Backend is the store's name: "redis".
	Backend string
	Key     string
	Limit   Limit
	// Spent permits, those that were given back, and those that were lost: debited at the
	// store, and spent by nobody. A request that comes just as the lease ends may be among
	// the spent, although it was answered otherwise.
	Spent, Returned, Wasted int
}

// StoreCall is one request to the store.
type StoreCall struct {
	// Backend is the store's name: "redis".
	Backend string
	// Op is "trylock", "lock" (in the store's queue), "renew", "renewall", "unlock", "take",
	// "takeall", "refund", "charge", "reset", "inspect", "holders", "list" (all pages of one List) or "break".
	Op string
	// Key is "" where there are several; of "list" it is the prefix.
	Key  string
	Took time.Duration
	Err  error
}

// Failed reports an error that is no answer: the store could not be reached, did
// not serve the call, or holds what is not coord's. A caller who has gone is no failure.
func (s StoreCall) Failed() bool { return errs.StoreFailed(s.Err) }

// Outcome is how a call ended. It is also the text for metrics.
type Outcome string

const (
	OutcomeOK          Outcome = "ok"          // granted; of Do, its function had the lock to the end
	OutcomeRefused     Outcome = "refused"     // locked, or limited
	OutcomeTimedOut    Outcome = "timed_out"   // the context's deadline, or WaitAtMost
	OutcomeCancelled   Outcome = "cancelled"   // the caller has gone
	OutcomeLost        Outcome = "lost"        // of Do: the hold ended first; of Lock: re-entry after that
	OutcomeUnavailable Outcome = "unavailable" // the store could not be reached, or its answer is unknown
	OutcomeClosed      Outcome = "closed"      // the Client was closed
	OutcomeInvalid     Outcome = "invalid"     // it could never succeed
	OutcomeError       Outcome = "error"       // anything else, such as the error of Do's function
)

// outcomes are tried in this order: an error can be several.
var outcomes = []struct {
	err     error
	outcome Outcome
}{
	{ErrClosed, OutcomeClosed},
	{ErrLost, OutcomeLost},
	{ErrUnavailable, OutcomeUnavailable},
	{context.DeadlineExceeded, OutcomeTimedOut},
	{context.Canceled, OutcomeCancelled},
	{ErrUnknownOutcome, OutcomeUnavailable},
	{ErrLocked, OutcomeRefused},
	{ErrLimited, OutcomeRefused},
	{ErrInvalid, OutcomeInvalid},
	{ErrExceedsBurst, OutcomeInvalid},
	{ErrUnsupported, OutcomeInvalid},
}
