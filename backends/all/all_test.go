package all_test

import (
	"testing"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/all"
	"github.com/coordgo/coord/driver"
)

// Every scheme that can be opened says what it claims, its scope among it.
func TestClaims(t *testing.T) {
	if len(coord.Schemes()) == 0 {
		t.Fatal("no scheme is registered")
	}
	for _, scheme := range coord.Schemes() {
		scopes := 0
		for _, c := range all.Claims(scheme) {
			if c == driver.ScopeProcess || c == driver.ScopeMachine || c == driver.ScopeHosts {
				scopes++
			}
		}
		if scopes != 1 {
			t.Errorf("%s claims %v: want exactly one scope", scheme, all.Claims(scheme))
		}
	}
	if all.Claims("nosuch") != nil {
		t.Error("an unknown scheme has claims")
	}
}
