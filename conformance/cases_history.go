package conformance

import (
	"github.com/coordgo/coord/conformance/internal/history"
	"github.com/coordgo/coord/driver"
)

// historyCases run several clients at the same time and let a checker look for an order of what
// they did that a sequential model allows. docs/contributing/histories.md has the models.
func historyCases() []Case {
	const (
		leaseRemedy = "read the operations that the message names: make each of TryLock, Renew and Unlock one atomic step at the store that compares the id and the lease itself"
		ownerRemedy = "read the drawing of the history: count Grant.Since from before the request, and never answer ErrNotHeld or ErrLocked where the outcome is unknown"
		countRemedy = "read the drawing of the history: make Take and Refund one atomic step at the store, and remember what was given back"
		flowRemedy  = "read the drawing of the history: let package driver/limits compute on one clock, inside the atomic step"
	)
	return []Case{
		{
			ID: "LOCK-201", Name: "history-of-leases-is-linearizable", Clause: "L1", run: playedUnder(withoutFaults, leaseHistory), Remedy: leaseRemedy,
			Why: "tests of one interleaving miss the next one; a history is checked against every order there is (Jepsen on etcd 3.4.3, whose locks were none)",
		}, {
			ID: "LOCK-202", Name: "history-of-leases-with-lost-calls-is-linearizable", Clause: "L5", run: playedUnder(lossyCalls, leaseHistory), Remedy: leaseRemedy,
			Why: "a lost reply leaves a hold that its id must find again and nobody else may free",
		}, {
			ID: "LOCK-203", Name: "history-of-leases-over-a-broken-network-is-linearizable", Clause: "L5", run: playedUnder(brokenNetwork, leaseHistory), Hooks: []Hook{HookLink}, Remedy: leaseRemedy,
			Why: "a client library that reconnects and sends again may answer for another call",
		}, {
			ID: "LOCK-204", Name: "histories-over-a-restart-are-linearizable", Clause: "L1", Slow: true, run: holdsAmid(restart), Hooks: []Hook{HookRestart}, Needs: driver.Claims{driver.DurableRestart},
			Remedy: "let the store confirm a grant after it is on disk, or do not claim durable-restart",
			Why:    "a store that confirms before it has written grants a key twice after a crash",
		}, {
			ID: "LOCK-205", Name: "histories-over-a-pause-are-linearizable", Clause: "L3", Slow: true, run: holdsAmid(stop), Hooks: []Hook{HookPause}, Remedy: ownerRemedy,
			Why: "a store that was stopped applies old requests when it goes on, after their callers have given up",
		}, {
			ID: "LOCK-206", Name: "histories-over-a-failover-are-linearizable", Clause: "L1", Slow: true, run: holdsAmid(failover), Hooks: []Hook{HookFailover}, Remedy: "acknowledge a grant only after a majority has it, and let no server that was replaced answer, or do not claim durable-failover",
			Why: "a leader that is stopped, parted from the others or replaced goes on as leader for a moment: it grants, refuses and ends leases that the next one knows better",
		}, {
			ID: "LOCK-211", Name: "history-of-owners-is-linearizable", Clause: "L7", Slow: true, run: playedUnder(withoutFaults, ownerHistory), Remedy: ownerRemedy,
			Why: "re-entry, hand-over inside a client and the next client's grant are one history to the application",
		}, {
			ID: "LOCK-212", Name: "history-of-owners-with-lost-calls-is-linearizable", Clause: "L3", Slow: true, run: playedUnder(lossyCalls, ownerHistory), Remedy: ownerRemedy,
			Why: "whoever is told that it holds must hold, however many renewals were lost (every Redis lock that renews in the background and ignores the error)",
		}, {
			ID: "LOCK-213", Name: "history-of-owners-over-a-broken-network-is-linearizable", Clause: "L3", Slow: true, run: playedUnder(brokenNetwork, ownerHistory), Hooks: []Hook{HookLink}, Remedy: ownerRemedy,
			Why: "the same through the store's own client library, its pool and its retries",
		}, {
			ID: "LOCK-221", Name: "guarded-resource-never-takes-a-stale-write", Clause: "L2", run: staleWriters, Remedy: "make tokens rise with each grant of a key, in the step that grants it",
			Why: "a holder that does not look writes after its lease: the resource that checks tokens refuses it, its unguarded twin shows that there was something to refuse",
		}, {
			ID: "LOCK-222", Name: "guarded-resource-outlives-frozen-processes", Clause: "L2", run: frozenWriters(2), Hooks: []Hook{HookWorker}, Remedy: "make tokens rise with each grant of a key, in the step that grants it",
			Why: "a garbage collection, a stopped container, a machine that slept: the process wakes up in the middle of its write (HBase's lost region server)",
		}, {
			ID: "LIMIT-201", Name: "history-of-permits-is-linearizable", Clause: "R1", run: playedUnder(withoutFaults, countHistory), Remedy: countRemedy,
			Why: "a limit under many clients is a counter, and must count as one",
		}, {
			ID: "LIMIT-202", Name: "history-of-permits-with-lost-calls-is-linearizable", Clause: "R4", run: playedUnder(lossyCalls, countHistory), Remedy: countRemedy,
			Why: "permits whose reply was lost are spent, and what was refunded is not given back again",
		}, {
			ID: "LIMIT-203", Name: "history-of-permits-over-a-broken-network-is-linearizable", Clause: "R4", Slow: true, run: playedUnder(brokenNetwork, countHistory), Hooks: []Hook{HookLink}, Remedy: countRemedy,
			Why: "a client library that sends a command again may spend twice, but must never mint",
		}, {
			ID: "LIMIT-204", Name: "history-of-permits-over-a-restart-is-linearizable", Clause: "R4", run: countsAmid(restart), Hooks: []Hook{HookRestart}, Needs: driver.Claims{driver.DurableRestart},
			Remedy: "let the store confirm a debit after it is on disk, or do not claim durable-restart",
			Why:    "a store that confirms before it has written forgets debts in a crash",
		}, {
			ID: "LIMIT-205", Name: "history-of-permits-over-a-pause-is-linearizable", Clause: "R4", run: countsAmid(stop), Hooks: []Hook{HookPause}, Remedy: countRemedy,
			Why: "a store that was stopped applies old requests when it goes on, after their callers have given up",
		}, {
			ID: "LIMIT-206", Name: "history-of-permits-over-a-failover-is-linearizable", Clause: "R4", Slow: true, run: countsAmid(failover), Hooks: []Hook{HookFailover}, Remedy: "acknowledge a debit only after a majority has it, or do not claim durable-failover",
			Why: "a server that takes over without the last debits grants them again",
		}, {
			ID: "LIMIT-211", Name: "history-of-moving-limits-is-linearizable", Clause: "R1", Slow: true, run: playedUnder(withoutFaults, flowHistory), Remedy: flowRemedy,
			Why: "windows that turn and buckets that refill, under several clients, against independent models of the algorithms",
		}, {
			ID: "LIMIT-212", Name: "history-of-moving-limits-with-lost-calls-is-linearizable", Clause: "R4", Slow: true, run: playedUnder(lossyCalls, flowHistory), Remedy: flowRemedy,
			Why: "what was spent by a call without an answer must leave the window when it is due, neither earlier nor never",
		},
	}
}

const (
	historyParties = 4
	leaseMoves     = 60
	shareMoves     = 100
	ownerRounds    = 7
	countMoves     = 60
	flowMoves      = 30
)

// playedUnder is a history of what parties play, under some kind of faults.
func playedUnder(w conditions, play func(*env, []*party) []*history.Log) func(*env) {
	return func(e *env) {
		parties, endFaults := w(e, historyParties)
		played := play(e, parties)
		endFaults()
		for _, h := range played {
			h.Lapse = e.bound(e.lapse(0)) // for so long after its end a lease may still bar others
		}
		e.linearizable(played...)
	}
}

func leaseHistory(e *env, parties []*party) []*history.Log {
	h := e.record(history.Heading{Model: history.ModelHolds})
	e.leases(h, parties, "")(leaseMoves)
	return []*history.Log{h}
}

func shareHistory(e *env, parties []*party) []*history.Log {
	h := e.record(history.Heading{Model: history.ModelHolds})
	e.shares(h, parties, "")(shareMoves)
	return []*history.Log{h}
}

func ownerHistory(e *env, parties []*party) []*history.Log {
	h := e.record(history.Heading{Model: history.ModelOwners})
	e.ownerships(h, parties[1:], "")(ownerRounds)
	return []*history.Log{h}
}

func countHistory(e *env, parties []*party) []*history.Log {
	accounts := e.accounts(history.ModelCounter, counters(), "")
	e.counts(accounts, parties)(countMoves)
	return histories(accounts)
}

func flowHistory(e *env, parties []*party) []*history.Log {
	accounts := e.accounts(history.ModelMoving, moving(), "")
	e.flows(accounts, parties)(flowMoves)
	return histories(accounts)
}
