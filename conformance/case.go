package conformance

import (
	"cmp"
	"slices"
	"strings"

	"github.com/coordgo/coord/driver"
)

// Case is one scenario of the suite.
type Case struct {
	// ID is stable over versions: LOCK-07, LIMIT-03, CORE-01.
	ID string `json:"id"`
	// Name says in a few words what the case shows.
	Name string `json:"name"`
	// Clause of docs/contract.md that it proves.
	Clause string `json:"clause"`
	// Why the case exists: the incident or the trap behind it.
	Why string `json:"why"`
	// Remedy is what an adapter that fails usually has to change, in one line.
	Remedy string `json:"remedy"`
	// Needs are claims without which the case is unsupported.
	Needs driver.Claims `json:"needs,omitempty"`
	// Proves is the claim that the case decides. Where it is not made, the
	// case still runs, and tells whether it could be.
	Proves driver.Claim `json:"proves,omitempty"`
	// Hooks of the harness without which the case is unproven.
	Hooks []Hook `json:"hooks,omitempty"`
	// Slow cases are left out by a fast pass: those that usually take four seconds or more.
	Slow bool `json:"slow,omitempty"`
	// Client cases judge package coord over the store, and not the store: leaders, conditions, several keys, re-entry,
	// waiting. They run where the harness asks for them, see [Harness.Client].
	Client bool `json:"client,omitempty"`
	// alone: it disturbs other cases, and runs when they are through.
	alone bool
	run   func(e *env)
}

// FullName is the name of the case's subtest: "LOCK-07/what-it-shows".
func (c Case) FullName() string { return c.ID + "/" + c.Name }

// Cases lists every case of the suite, ordered by id.
func Cases() []Case {
	all := slices.Concat(
		coreCases(),
		exclusionCases(),
		sharedCases(),
		ofClient(sharedClientCases()),
		tokenCases(),
		lossCases(),
		renewalCases(),
		ownershipCases(),
		waitCases(),
		ofClient(handOverCases(), "LOCK-89"),
		ofClient(reentryCases()),
		ofClient(severalKeysCases()),
		ofClient(conditionCases()),
		ofClient(electionCases()),
		ofClient(watchCases()),
		leaseCases(),
		keyCases(),
		closeCases(),
		operatorCases(),
		voteCases(),
		boundCases(),
		retryCases(),
		stateCases(),
		multiCases(),
		ofClient(permitLeaseCases()),
		ofClient(waitingCases(), "LIMIT-54", "LIMIT-56", "LIMIT-58", "LIMIT-59", "LIMIT-263"),
		chargeCases(),
		faultCases(),
		refusalCases(),
		lateCases(),
		callerCases(),
		memberCases(),
		faultLoopCases(),
		skewCases(),
		mutantCases(),
		claimCases(),
		raceCases(),
		edgeCases(),
		historyCases(),
	)
	slices.SortStableFunc(all, func(a, b Case) int { return byID(a.ID, b.ID) })
	return all
}

// ofClient marks cases that judge package coord, but those that find a fault of a store which no other case finds.
func ofClient(cases []Case, but ...string) []Case {
	for i := range cases {
		cases[i].Client = !slices.Contains(but, cases[i].ID)
	}
	return cases
}

// byID orders ids by family and number: LOCK-21 before LOCK-201.
func byID(a, b string) int {
	familyA, numberA, _ := strings.Cut(a, "-")
	familyB, numberB, _ := strings.Cut(b, "-")
	return cmp.Or(strings.Compare(familyA, familyB), cmp.Compare(len(numberA), len(numberB)), strings.Compare(numberA, numberB))
}

// locks and limits report which half of a store the case is about.
func (c *Case) locks() bool  { return strings.HasPrefix(c.ID, "LOCK-") }
func (c *Case) limits() bool { return strings.HasPrefix(c.ID, "LIMIT-") }

// exclusive reports whether the case disturbs others, and so runs alone.
func (c *Case) exclusive() bool { return c.alone || slices.ContainsFunc(c.Hooks, Hook.shared) }
