// Package coord gives Go programs distributed locks and rate limits on the
// store that you already run. A URL chooses the store, so you can change it
// without changing code:
//
//	client, err := coord.Open(ctx, "redis://localhost:6379/0")
//
//	err = coord.Do(ctx, client, "invoices", func(ctx context.Context) error {
//		return writeInvoices(ctx) // one process at a time
//	})
//
//	r, err := client.Allow(ctx, "supplier", coord.PerMinute(2000))
//	if err == nil && !r.Allowed {
//		return retryAfter(r.RetryAfter)
//	}
//
// # What you can rely on
//
// A lock is exclusive: at most one live hold on a key over all clients of the
// store, as long as the store keeps its promises. It is a lease, not a mutex:
// when its holder dies, the store frees it within one TTL. So a holder that is
// paused for longer outlives its hold. [Lock.Done], [Lock.Err] and
// [Lock.Context] report the loss to the holder before anyone else can be
// granted, provided that its process is scheduled and clocks drift less than 1%
// of the TTL. Where this condition is not enough, fence your writes:
// [Lock.Token] is strictly greater for each later holder, and [Guard] or one
// comparison in a transaction refuses a stale one. Unlock never frees another's
// hold.
//
// A limit is never exceeded beyond the bound written at its [Algorithm], over
// all clients of the store; a denied request takes no permits; RetryAfter is
// honest.
//
// No call outlasts its ctx by more than a moment. A lost reply leaves nothing
// behind that lives longer than its TTL. The Claims of a store say what it can
// do, and [WithRequired] refuses a store that lacks what you need.
//
// docs/contract.md numbers every clause; the conformance suite has a case for each.
//
// # Re-entry
//
// A lock travels in the context that [Do] and [Lock.Context] give: a Do of the
// same key under it re-enters, without a round trip and with the same token.
// Goroutines that share a context exclude each other: if two entries of a hold
// are inside at the same time, one descends from the other. [Detach] makes a
// context that hides all entries.
//
// # Errors
//
// Every error of a Client is an [*Error] around the sentinels of this package;
// match them with errors.Is. A denial by a limit is no error.
package coord
