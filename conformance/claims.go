package conformance

import (
	"slices"

	"github.com/coordgo/coord/driver"
)

// undecided are the claims that no case proves, and why. They are taken on trust: a
// report says so wherever one of them counts.
var undecided = map[driver.Claim]string{
	driver.NoEviction: "it takes a store whose memory is full",
}

// implied are claims that include another one: tokens that rise even when all is lost also
// rise over a restart, and what hosts share the processes of one share, too.
var implied = map[driver.Claim]driver.Claims{
	driver.TokenProcess: {driver.TokenRestart, driver.TokenClockSeeded},
	driver.TokenRestart: {driver.TokenClockSeeded},
	driver.ScopeMachine: {driver.ScopeHosts},
}

// claimed reports whether claims say c, or something that includes it.
func claimed(claims driver.Claims, c driver.Claim) bool {
	return claims.Has(c) || slices.ContainsFunc(implied[c], claims.Has)
}
