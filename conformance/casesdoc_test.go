package conformance_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/internal/golden"
)

const casesDoc = "../docs/generated/conformance-cases.md"

// The page is made of Cases, so that it cannot say what the suite does not do.
func TestCasesDoc(t *testing.T) {
	golden.File(t, casesDoc, casesPage())
}

func casesPage() string {
	var b strings.Builder
	cases := conformance.Cases()
	fmt.Fprintf(&b, `# The cases of the conformance suite

This page says what each of the %d cases shows, why it exists, and what an adapter that fails it usually has to change.
`+"`go test ./conformance -run TestCasesDoc -update`"+` writes it.

| word | meaning |
| --- | --- |
| clause | of the [contract](../contract.md) |
| decides | the claim that the case proves. Without the claim the case is unsupported, and reported if it would pass |
| of the client | it judges package coord, and runs in fake time and on Redis |
| needs | claims and hooks of the harness without which the case is not run |

## Which case for which scenario

`, len(cases))
	b.WriteString(scenarios)
	family := ""
	for _, c := range cases {
		if f, _, _ := strings.Cut(c.ID, "-"); f != family {
			family = f
			fmt.Fprintf(&b, "\n## %s\n", map[string]string{"CORE": "Every store", "LOCK": "Locks", "LIMIT": "Limits"}[f])
		}
		page := "contract.md"
		if strings.HasPrefix(c.Clause, "R") {
			page = "contract-limits.md"
		}
		clauseOf := fmt.Sprintf("[%s](../%s)", c.Clause, page)
		fmt.Fprintf(&b, "\n### %s %s\n\nClause %s.", c.ID, c.Name, clauseOf)
		if c.Proves != "" {
			fmt.Fprintf(&b, " Decides `%s`.", c.Proves)
		}
		var needs []string
		for _, n := range c.Needs {
			needs = append(needs, "`"+string(n)+"`")
		}
		for _, hk := range c.Hooks {
			needs = append(needs, string(hk))
		}
		if len(needs) > 0 {
			fmt.Fprintf(&b, " Needs %s.", strings.Join(needs, ", "))
		}
		if c.Client {
			b.WriteString(" Of the client.")
		}
		if c.Slow {
			b.WriteString(" Left out by a fast pass.")
		}
		fmt.Fprintf(&b, "\n\nWhy: %s.\n\nRemedy: %s.\n", strings.TrimSuffix(c.Why, "."), strings.TrimSuffix(c.Remedy, "."))
	}
	return b.String()
}

// Every id in the table of scenarios is a case.
func TestScenariosNameCases(t *testing.T) {
	known := make(map[string]bool)
	for _, c := range conformance.Cases() {
		known[c.ID] = true
	}
	for _, word := range strings.FieldsFunc(scenarios, func(r rune) bool { return strings.ContainsRune(" ,|\n.;()", r) }) {
		if strings.HasPrefix(word, "LOCK-") || strings.HasPrefix(word, "LIMIT-") || strings.HasPrefix(word, "CORE-") {
			if !known[word] {
				t.Errorf("the table of scenarios names %s, which is no case", word)
			}
		}
	}
}

// scenarios are those that the suites of other frameworks, and the reports of their users, have
// taught; each with its cases, or with where it is covered otherwise.
const scenarios = `| scenario | cases |
| --- | --- |
| contention loses no update, in one process and over several | LOCK-01, LOCK-39 |
| losers get the exact error | LOCK-02, LOCK-03, LOCK-41 |
| a holder is killed | LOCK-04, LOCK-59 |
| a holder is frozen, and wakes up after its lease | LOCK-13 |
| a holder is cut off: it knows before anyone else is granted | LOCK-10, LOCK-11, LOCK-12, LOCK-15 |
| an entry is deleted or evicted | LOCK-14, LOCK-16, LOCK-17, LOCK-18 |
| a passing failure is no loss | LOCK-21, LOCK-22 |
| stale renewals and releases leave the successor alone | LOCK-24, LOCK-32, LOCK-33 |
| a write that was stalled arrives after the key, or the account, was made anew | LOCK-233, LIMIT-233 |
| a renewal races with the release | LOCK-26, LOCK-28 |
| tokens rise over holders, lapses, restarts, failovers, the loss of all data | LOCK-05, LOCK-06, LOCK-57, LOCK-08, LOCK-29, LOCK-09 |
| re-entry, its token, its depth, its loss | LOCK-60, LOCK-61, LOCK-62, LOCK-63, LOCK-64, LOCK-66, LOCK-358 |
| a wait is cancelled or times out | LOCK-40, LOCK-41, LOCK-46 |
| the reply to an acquisition or a release is lost | LOCK-42, LOCK-43, LOCK-44, LOCK-45, LOCK-35, LOCK-36 |
| every call fails once, in every way | LOCK-47, LOCK-54, LOCK-55, LOCK-56, LIMIT-62, LIMIT-63, LIMIT-64 |
| waiters are woken, in order, past the dead, and when a lease lapses | LOCK-50, LOCK-51, LOCK-52, LOCK-53, LOCK-59 |
| TTLs of zero, below the step, above 30 days | LOCK-70, LOCK-71, LOCK-72, LOCK-78, LOCK-359 |
| several keys at once: in any order, refused, lost, held before | LOCK-261, LOCK-262, LOCK-263, LOCK-264, LOCK-265, LOCK-266 |
| a leader: one at a time, stopped, cut off, restarted, out of hand | LOCK-271, LOCK-272, LOCK-273, LOCK-274, LOCK-275, LOCK-276, LOCK-277, LOCK-278, LOCK-279, LOCK-280, LOCK-281, LOCK-282 |
| who leads is shown, and that nobody does | LOCK-283, LOCK-284, LOCK-285 |
| what is held is listed | LOCK-286 |
| readers beside a writer, more permits than there are, also with different bounds | LOCK-301, LOCK-303, LOCK-304, LOCK-321, LOCK-331, LOCK-340 |
| one of several holders dies, is lost, is killed, is broken | LOCK-306, LOCK-317, LOCK-337, LOCK-338, LOCK-345 |
| writers and heavy requests wait behind a stream; the first in the queue dies or gives up | LOCK-305, LOCK-310, LOCK-333, LOCK-334, LOCK-347 |
| a writer becomes a reader; a reader wants to write | LOCK-313, LOCK-339 |
| members of a group are listed and watched | LOCK-316, LOCK-341 |
| keys that look alike, are empty, are long | LOCK-80, LOCK-81, LOCK-82, LIMIT-33, CORE-05 |
| clients close while they hold and wait | LOCK-90, LOCK-91, LOCK-92, LOCK-93, LOCK-94, CORE-04 |
| the context has ended before the call | CORE-03, CORE-06 |
| the store cannot be reached, is paused, comes back | CORE-02, LOCK-15, LOCK-48, LOCK-49, LIMIT-60, LIMIT-61 |
| one server of several hangs, is cut off, is slow, or comes back empty | LOCK-251, LOCK-252, LOCK-253, LOCK-254, LIMIT-251, LIMIT-252 |
| the store is full or read-only for a while, or refuses one kind of call | LOCK-231, LOCK-232, LOCK-346, LIMIT-231, LIMIT-232 |
| clocks of clients are seconds, an hour or a day off, or set back | LOCK-83, LIMIT-11, LIMIT-12, LIMIT-13, LIMIT-14, LIMIT-244 |
| thousands call at once, and the client closes amid them | LOCK-234, LIMIT-234, LIMIT-235, LIMIT-236 |
| many clients, goroutines and processes share one limit exactly | LIMIT-01, LIMIT-10, LIMIT-17, LIMIT-39 |
| each algorithm keeps its bound, also about its edges | LIMIT-02, LIMIT-03, LIMIT-04, LIMIT-18, LIMIT-19, LIMIT-34 |
| partial grants, denials and rounding lose and mint nothing | LIMIT-05, LIMIT-06, LIMIT-07, LIMIT-08, LIMIT-09 |
| retry and reset times are exact; impossible asks say so | LIMIT-20, LIMIT-21, LIMIT-22, LIMIT-23 |
| rates, bursts, algorithms and periods are changed, or mixed | LIMIT-30, LIMIT-31, LIMIT-241, LIMIT-242, LIMIT-243 |
| reset, peek, denial cache | LIMIT-32, LIMIT-35, LIMIT-45, LIMIT-46, LIMIT-263 |
| the state of a limit is lost | LIMIT-16, LIMIT-38, LIMIT-15 |
| refunds twice, late, or of what never was | LIMIT-54, LIMIT-59 |
| several limits at once, one of them twice | LIMIT-40, LIMIT-41, LIMIT-42, LIMIT-43 |
| permits taken in advance | LIMIT-50, LIMIT-51, LIMIT-52 |
| waiting in order, in time, cancelled, hopeless | LIMIT-56, LIMIT-57, LIMIT-58, LIMIT-261, LIMIT-262 |
| scripts flushed, slots moved, leases of sessions, watches compacted | the store's own business: tests of each backend |
| a stored value is corrupt, or of another type | the store's own business: tests of each backend |
| keys that never expire | the store's own business: tests of each backend |
| limits of concurrency | LOCK-321, LOCK-331 |
`
