package guide

import "github.com/coordgo/coord/conformance"

// known is for Harness.Deviations.
var known = []conformance.Deviation{
	{Case: "LOCK-07", Reason: "tokens above 2^40 are cut: the store's counters have 40 bits"},
}
