package conformance_test

import (
	"testing"

	"github.com/coordgo/coord/conformance"
)

// unguarded are the cases that no mutant kills, by the reason.
var unguarded = map[string][]string{
	"it is about other processes, which live in real time": {
		"LIMIT-10", "LOCK-04", "LOCK-13", "LOCK-39", "LOCK-75", "LOCK-84", "LOCK-85", "LOCK-86", "LOCK-222", "LOCK-345",
	},
	"package coord checks it before it asks the driver, or corrects what the driver does": {
		"CORE-06", "LIMIT-22", "LIMIT-23", "LIMIT-243", "LOCK-07", "LOCK-62", "LOCK-64", "LOCK-71", "LOCK-81", "LOCK-315",
	},
	"no sound driver here can lose its data, or count by a clock that is set back": {
		"LIMIT-11", "LIMIT-12", "LIMIT-14", "LIMIT-16", "LOCK-17", "LOCK-277", "LOCK-309",
	},
	"nobody has written one": {
		"LOCK-22", "LOCK-48", "LOCK-76", "LOCK-212", "LOCK-213", "LOCK-221",
		"LOCK-322", "LOCK-323", "LOCK-338", "LOCK-340",
	},
}

// Each case is killed by a mutant, or is one of those that are known not to be.
func TestCasesHaveMutants(t *testing.T) {
	killed := make(map[string]bool)
	for _, id := range conformance.HistoryKillers() {
		killed[id] = true
	}
	for _, m := range allMutants() {
		for _, id := range m.killers {
			killed[id] = true
		}
	}
	known := make(map[string]bool)
	for why, ids := range unguarded {
		for _, id := range ids {
			if known[id] || killed[id] {
				t.Errorf("case %s is listed (%s), though a mutant kills it or it is listed twice", id, why)
			}
			known[id] = true
		}
	}
	for _, c := range conformance.Cases() {
		if !killed[c.ID] && !known[c.ID] {
			t.Errorf("no mutant kills %s: what shows that it can fail?", c.FullName())
		}
		delete(known, c.ID)
	}
	for id := range known {
		t.Errorf("there is no case %s", id)
	}
}
