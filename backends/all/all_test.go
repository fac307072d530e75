package all_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/coordgo/coord/backends/all"
	"github.com/coordgo/coord/driver"
)

// These are all the schemes. TestSchemePackages of package coord has the same, with their packages.
func TestSchemes(t *testing.T) {
	const want = "etcd etcds file memcached memcacheds memory postgres postgresql redis redis+cluster redis+sentinel rediss rediss+cluster rediss+sentinel " +
		"valkey valkey+cluster valkey+sentinel valkeys valkeys+cluster valkeys+sentinel zookeeper zookeepers"
	if got := driver.Schemes(); !slices.Equal(got, strings.Fields(want)) {
		t.Errorf("registered: %v", got)
	}
}

// Every scheme that can be opened says what it claims, its scope among it.
func TestClaims(t *testing.T) {
	if len(driver.Schemes()) == 0 {
		t.Fatal("no scheme is registered")
	}
	for _, scheme := range driver.Schemes() {
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
