package conformance

import (
	"slices"

	"github.com/coordgo/coord/driver"
)

// faultCases are scenarios of a fault that run on both paths.
func faultCases() []Case {
	return slices.Concat(
		paths(blackHoled(lockKind), "LOCK-12", Case{
			ID: "LOCK-11", Name: "black-hole-is-seen-before-regrant", Clause: "L3",
			Why:    "a renewal that hangs must not keep its holder in the dark (rueidislock saw the loss 2.5s after the competitor's grant)",
			Remedy: "let Renew end with its context",
		}, "bound the client library's retries and time-outs by the context"),
		paths(unlockReplyLost, "LOCK-36", Case{
			ID: "LOCK-35", Name: "lost-reply-to-unlock-is-success", Clause: "L5",
			Why:    "a release whose reply was lost has happened: a retry finds nothing of its own, and must not touch the successor",
			Remedy: "answer a repeated Unlock with ErrNotHeld, and nothing worse",
		}, "turn off the retries of the client library for calls that change something"),
		paths(looped(dropped, lockUsages, "Lock and Unlock", "TryLock and Unlock"), "LOCK-43", Case{
			ID: "LOCK-42", Name: "lost-reply-to-acquire-is-held-or-removed", Clause: "L6",
			Why:    "a grant whose reply was lost keeps the key from everyone, for ever if something renews it (redislock, etcd)",
			Remedy: "name the entry by the id, so that Unlock of that id removes what an unanswered call has left",
		}, "let the client library not resend what changes something, or make it idempotent by the id"),
		paths(looped(mute, lockUsages, "TryLock and Unlock"), "LOCK-45", Case{
			ID: "LOCK-44", Name: "silent-acquire-ends-and-is-removed", Clause: "L6",
			Why:    "cleaning up on the caller's dead context cleans nothing (redsync left the key for 9.5s of 10s)",
			Remedy: "clean up under a context of its own, not the caller's dead one",
		}, "bound the client library's time-outs by the context"),
		paths(closeSilent, "LOCK-93", Case{
			ID: "LOCK-92", Name: "close-ends-while-the-store-is-silent", Clause: "L11",
			Why:    "a process that cannot stop because its store is gone is killed, with everything else that it had to do",
			Remedy: "let Close return without an answer of the store",
		}, "close connections instead of waiting for answers on them"),
		paths(leaderOutage, "LOCK-276", Case{
			ID: "LOCK-275", Name: "a-leader-outlives-an-outage", Clause: "E4", Slow: true, Client: true,
			Why:    "a process that exits, or never leads again, because the store was away for a moment makes an outage longer; one that leads on beyond its lease is a second leader (kubernetes 23731, CURATOR-460)",
			Remedy: "let calls fail while the store is away, and work when it is back",
		}, "connect again by yourself, with a new session if the old one is gone"),
		paths(candidateOutage, "LOCK-279", Case{
			ID: "LOCK-278", Name: "a-candidate-outlives-an-outage", Clause: "E4", Slow: true, Client: true,
			Why:    "a candidate whose place in the queue has gone waits for ever, or thinks that it leads without a key (charts 326)",
			Remedy: "let Lock fail, or queue again, if its entry in the queue is gone",
		}, "let Lock fail, or queue again, if its entry in the queue is gone"),
		paths(blackHoled(readKind), "LOCK-338", Case{
			ID: "LOCK-337", Name: "loss-of-a-share-is-seen-before-regrant", Clause: "SH2", Needs: sharing, Client: true,
			Why:    "a reader that is cut off reads on while a writer writes",
			Remedy: "set Grant.Since to before the request was sent, and Grant.TTL to what the store really granted",
		}, "bound the client library's retries and time-outs by the context"),
		paths(looped(dropped, limitUsages, "Allow"), "LIMIT-37", Case{
			ID: "LIMIT-36", Name: "lost-reply-counts-as-spent", Clause: "R4",
			Why:    "a permit whose reply was lost may have been taken: giving it again breaks the bound",
			Remedy: "never give permits back after an error: the ask may have been applied",
		}, "turn off the retries of the client library, or make a repeated ask find its first"),
		paths(failurePolicy, "LIMIT-61", Case{
			ID: "LIMIT-60", Name: "failure-policy-decides", Clause: "R9",
			Why:    "whether an outage of the limiter stops the service is a decision, and is to be visible when it is made",
			Remedy: "return the store's error when it cannot be reached, never a grant or a denial",
		}, "bound every network operation by the context"),
		paths(looped(dropped, limitUsages, "Charge"), "LIMIT-276", Case{
			ID: "LIMIT-275", Name: "charge-is-made-once", Clause: "R10", Needs: driver.Claims{driver.Charge},
			Why:    "a charge that is sent again after a lost reply is debited twice",
			Remedy: "send it once, and answer an error that is not definite when the reply does not come",
		}, "turn off the retries of the client library for charges"),
	)
}

// paths makes of a scenario the case c, which breaks the calls themselves, and one of the id network, which breaks the
// connection under them.
func paths(scenario func(*env, pathTo), network string, c Case, remedy string) []Case {
	c.run = func(e *env) { scenario(e, byDriver) }
	under := c
	under.ID, under.Name, under.Remedy, under.Hooks = network, "network-"+c.Name, remedy, []Hook{HookLink}
	under.Why += "; the same under the store's own client library, which retries, reconnects and times out by itself"
	under.run = func(e *env) { scenario(e, byNetwork) }
	return []Case{c, under}
}
