package driver_test

import (
	"testing"

	"github.com/coordgo/coord/driver"
)

// claiming is a store that does nothing and claims all of it.
type claiming struct {
	driver.Unimplemented
	driver.Claims
}

func (c claiming) Info() driver.Info         { return driver.Info{Claims: c.Claims} }
func (claiming) Close() error                { return nil }
func (claiming) Shared() driver.SharedLocker { return nil }

// What is said of locks and limits needs both stores.
func TestSplitClaimsDurability(t *testing.T) {
	durable := claiming{Claims: driver.Claims{driver.DurableRestart, driver.NoEviction, driver.ScopeHosts}}
	volatile := claiming{Claims: driver.Claims{driver.ServerClock, driver.ScopeHosts}}
	for _, both := range []driver.Backend{driver.Split(durable, volatile), driver.Split(volatile, durable)} {
		for _, c := range []driver.Claim{driver.DurableRestart, driver.NoEviction} {
			if both.Info().Claims.Has(c) {
				t.Errorf("claims %q, which one of the stores does not", c)
			}
		}
	}
}

func TestLocksAndLimits(t *testing.T) {
	a, b, c := claiming{Claims: driver.Claims{"a"}}, claiming{Claims: driver.Claims{"b"}}, claiming{Claims: driver.Claims{"c"}}
	name := func(s driver.Backend) driver.Claim { return s.Info().Claims[0] }
	locks, limits := driver.LocksAndLimits(driver.Split(driver.Split(a, b), driver.Split(b, c)))
	if name(locks) != "a" || name(limits) != "c" {
		t.Errorf("locks on %s, limits on %s", name(locks), name(limits))
	}
	if locks, limits = driver.LocksAndLimits(b); name(locks) != "b" || name(limits) != "b" {
		t.Errorf("locks on %s, limits on %s", name(locks), name(limits))
	}
}
