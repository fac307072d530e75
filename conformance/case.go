package conformance

import (
	"slices"
	"strings"
	"time"

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
	// Needs are claims without which the case is unsupported.
	Needs driver.Claims `json:"needs,omitempty"`
	// Proves is the claim that the case decides. Where it is not made, the
	// case still runs, and tells whether it could be.
	Proves driver.Claim `json:"proves,omitempty"`
	// Hooks of the harness without which the case is unproven.
	Hooks []Hook `json:"hooks,omitempty"`
	// bound is how long the case may take on a store with short leases; 0 is
	// the usual bound. Leases longer than that are added.
	bound time.Duration
	run   func(e *env)
}

// FullName is the name of the case's subtest: "LOCK-07/what-it-shows".
func (c Case) FullName() string { return c.ID + "/" + c.Name }

// Cases lists every case of the suite, ordered by id.
func Cases() []Case {
	all := slices.Concat(coreCases(), exclusionCases(), tokenCases(), lossCases(), renewalCases(),
		ownershipCases(), waitCases(), reentryCases(), leaseCases(), keyCases(), closeCases(), operatorCases(),
		boundCases(), retryCases(), stateCases(), waitingCases(), outageCases())
	slices.SortStableFunc(all, func(a, b Case) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// locks and limits report which half of a store the case is about.
func (c *Case) locks() bool  { return strings.HasPrefix(c.ID, "LOCK-") }
func (c *Case) limits() bool { return strings.HasPrefix(c.ID, "LIMIT-") }

// exclusive reports whether the case disturbs others, and so runs alone.
func (c *Case) exclusive() bool { return slices.ContainsFunc(c.Hooks, Hook.shared) }
