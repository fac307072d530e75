package driver

import "slices"

// Claim is one capability of a store, in the words of configuration files. The
// conformance suite proves claims both ways: a claim that fails is a failure,
// and a capability that is there unclaimed is reported.
type Claim string

// Claims are the capabilities of one store.
type Claims []Claim

// The claims.
const (
	// Fair: waiters are granted in the order in which they came, over all
	// clients, and nobody overtakes a fair waiter.
	Fair Claim = "fair"
	// Wake: the store pushes to waiters; nothing polls.
	Wake Claim = "wake"
	// LossPush: the store pushes losses to holders.
	LossPush Claim = "loss-push"
	// PerHoldTTL: each hold has the TTL that it asked for, not a session's.
	PerHoldTTL Claim = "per-hold-ttl"
	// Inspect and Break: an operator can see and revoke holds.
	Inspect Claim = "inspect"
	Break   Claim = "break"
	// List: an operator can list what is held.
	List Claim = "list"
	// Shared: several can hold a key, as readers beside one another or as takers of permits.
	Shared Claim = "shared"
	// Vote: the store can be a member of a quorum. It keeps [Request.Floor], and [Grant.Run] tells when it may have
	// forgotten holds.
	Vote Claim = "vote"
	// MinHoldAfterExit: MinHold is kept by the store after the process ended.
	MinHoldAfterExit Claim = "min-hold-after-exit"

	// TokenProcess: tokens increase as long as the process that keeps the
	// store lives.
	TokenProcess Claim = "token-process"
	// TokenRestart: tokens increase over restarts of the store.
	TokenRestart Claim = "token-restart"
	// TokenClockSeeded: tokens increase even when the store lost everything,
	// provided that the clock which seeds them did not go back.
	TokenClockSeeded Claim = "token-clock-seeded"
	// TokenFailover: tokens increase over a failover that loses no
	// acknowledged write.
	TokenFailover Claim = "token-failover"

	// DurableRestart: holds and limits survive a restart of the store.
	DurableRestart Claim = "durable-restart"
	// DurableFailover: holds and limits survive the loss of a minority of
	// the store's servers.
	DurableFailover Claim = "durable-failover"
	// NoEviction: the store never drops live state to make room.
	NoEviction Claim = "no-eviction"

	// ServerClock: limits run on one clock of the store's.
	ServerClock Claim = "server-clock"
	// AtomicMulti: several limits are taken in one atomic step.
	AtomicMulti Claim = "atomic-multi"
	// Reserve: token buckets grant ahead of time and take back.
	Reserve Claim = "reserve"
	// Charge: permits are debited after they were used, whatever is left, and given back.
	Charge Claim = "charge"

	// Scope: which clients share one store. Exactly one is claimed.
	ScopeProcess Claim = "scope-process"
	ScopeMachine Claim = "scope-machine"
	ScopeHosts   Claim = "scope-hosts"
)

// AllClaims lists every claim, in the order of the documentation.
func AllClaims() []Claim {
	return []Claim{
		Fair, Wake, LossPush, PerHoldTTL, Inspect, Break, List, Shared, Vote, MinHoldAfterExit,
		TokenProcess, TokenRestart, TokenClockSeeded, TokenFailover,
		DurableRestart, DurableFailover, NoEviction,
		ServerClock, AtomicMulti, Reserve, Charge,
		ScopeProcess, ScopeMachine, ScopeHosts,
	}
}

// Has reports whether c is claimed.
func (cs Claims) Has(c Claim) bool { return slices.Contains(cs, c) }

// Missing gives those of want that are not claimed.
func (cs Claims) Missing(want ...Claim) []Claim {
	var missing []Claim
	for _, c := range want {
		if !cs.Has(c) {
			missing = append(missing, c)
		}
	}
	return missing
}

// Without gives the claims but c.
func (cs Claims) Without(c Claim) Claims {
	return slices.DeleteFunc(slices.Clone(cs), func(have Claim) bool { return have == c })
}
