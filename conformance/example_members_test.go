package conformance_test

import (
	"context"
	"fmt"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
)

// A store of two servers. It is in memory here: a real one has processes, which Hang stops.
func ExampleMembers() {
	open := membered(memberBug{})().Open
	s := conformance.Suite{
		Harness: conformance.Harness{
			Open: open, Claims: without(memory.Claims, driver.ScopeProcess, driver.ScopeHosts),
			Members: &conformance.Members{
				Open: open, Count: memberCount, Bound: memberBound,
				LockAt: memberStore{}.at, LimitAt: memberStore{}.at,
			},
		},
		Only: func(c conformance.Case) bool { return c.ID == "LIMIT-251" },
	}
	report, err := s.Run(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Results[0].Outcome, report.Results[0].Reason)
	// Output: unproven the harness has no Members.Hang
}

// A fault is given the number of the member, and gives what ends it.
func ExampleMemberFault() {
	var hang conformance.MemberFault = func(_ conformance.TB, member int) func() {
		fmt.Println("member", member, "hangs")
		return func() { fmt.Println("member", member, "serves") }
	}
	end := hang(nil, 1)
	end()
	// Output:
	// member 1 hangs
	// member 1 serves
}
