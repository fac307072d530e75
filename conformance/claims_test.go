package conformance

import (
	"testing"

	"github.com/coordgo/coord/driver"
)

// Every claim is decided by a case, or is named as one that is taken on trust.
func TestEveryClaimIsDecided(t *testing.T) {
	proves := make(map[driver.Claim]string)
	for _, c := range Cases() {
		proves[c.Proves] = c.ID
	}
	for _, claim := range driver.AllClaims() {
		switch id, why := proves[claim], undecided[claim]; {
		case id == "" && why == "":
			t.Errorf("no case decides %q: write one, or say in undecided why there can be none", claim)
		case id != "" && why != "":
			t.Errorf("%s decides %q: strike the claim from undecided", id, claim)
		}
	}
}
