// Package observe is what a client of coord tells of what it does: metrics, traces and logs are made of it.
//
//	client, err := coord.Open(ctx, url, coord.WithObserver(observe.Observer{
//		Lost: func(ctx context.Context, e observe.Lost) { … },
//	}))
//
// An [Observer] has a function for each kind of event. The types of events are here too: those of locks embed [Lock],
// those of limits are [Decision] and [LeaseEnded], those of calls [CallEnded] and [StoreCall].
package observe

import "context"

// Observer receives what a client does, for metrics, traces and logs; package
// otelcoord has one for OpenTelemetry. Every field is optional, and more may be
// added: name the fields that you set. A client without an observer pays nothing.
//
// The functions are called where things happen, so they must be quick, safe for
// concurrent use, and must not call the client or its locks: a slow one delays
// the call, or the release, that it is called for, though never the moment at which a
// loss is seen. If one panics, the client logs it, once for each field, and goes on.
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

	// LeaseEnded: permits that were taken in advance, under coord.WithPermitLease, were all spent, or are
	// over. ctx is nobody's.
	LeaseEnded func(ctx context.Context, e LeaseEnded)

	// StoreCalled: the store was asked something. StoreCall.Failed tells failures from answers.
	StoreCalled func(ctx context.Context, e StoreCall)
}
