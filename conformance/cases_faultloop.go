package conformance

func faultLoopCases() []Case {
	return []Case{
		{
			ID: "LOCK-54", Name: "every-call-fails-once-and-leaves-nothing", Clause: "L6", Slow: true, run: faultLoop(byDriver, lockUsages, failingKinds()),
			Why:    "every call is the last before the network breaks some day: each fails here, lost or applied, once and from then on (SQLite's loop over out of memory)",
			Remedy: "look at the call that the message names: make it one atomic step at the store, so that applied and not applied are the only outcomes, and give an error that is not definite when it is not known which",
		}, {
			ID: "LOCK-55", Name: "every-call-hangs-once-and-leaves-nothing", Clause: "L6", run: faultLoop(byDriver, lockUsages, hangingKinds()), Slow: true,
			Why:    "a call that hangs is the harder failure: its caller leaves, and it may yet be applied",
			Remedy: "end every call with its context and withdraw by Unlock whatever it may have left, also a place in the queue",
		}, {
			ID: "LOCK-56", Name: "every-call-breaks-its-connection-and-leaves-nothing", Clause: "L6", run: faultLoop(byNetwork, lockUsages, networkKinds()), Hooks: []Hook{HookLink}, Slow: true,
			Why:    "the same under the store's own client library, which retries, reconnects and times out by itself",
			Remedy: "turn off the retries of the client library for calls that change something, and give its time-outs the context's deadline",
		}, {
			ID: "LIMIT-62", Name: "every-call-fails-once-and-the-bound-holds", Clause: "R4", run: faultLoop(byDriver, limitUsages, failingKinds()),
			Why:    "a permit that is given back, or asked for again, after a lost reply is granted twice",
			Remedy: "debit in the same atomic step that decides, and remember refunds by their id",
		}, {
			ID: "LIMIT-63", Name: "every-call-hangs-once-and-the-bound-holds", Clause: "R4", Slow: true, run: faultLoop(byDriver, limitUsages, hangingKinds()),
			Why:    "a limiter that hangs stops the service that it is to protect",
			Remedy: "end every call with its context; count what may have been applied as spent",
		}, {
			ID: "LIMIT-64", Name: "every-call-breaks-its-connection-and-the-bound-holds", Clause: "R4", run: faultLoop(byNetwork, limitUsages, networkKinds()), Hooks: []Hook{HookLink}, Slow: true,
			Why:    "the same under the store's own client library, which may send a request again",
			Remedy: "turn off the retries of the client library for calls that debit",
		},
	}
}
