package conformance

import (
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

func multiCases() []Case {
	return []Case{
		{
			ID: "LIMIT-41", Name: "client-takes-several-limits-or-none", Clause: "R5", run: allowAll, Proves: driver.AtomicMulti,
			Why:    "a request that is limited per user and in all must not cost the second limit when the first denies it",
			Remedy: "evaluate every demand before anything is written, in one step of the store; without one, do not claim atomic-multi",
		}, {
			ID: "LIMIT-42", Name: "best-effort-gives-back", Clause: "R5", run: allowAllInTurn,
			Why:    "limits that are taken one after the other, and not given back, lock everyone out by the denials of one",
			Remedy: "Refund gives back what an ask of a window was granted, once for each id, as long as it is in the window",
		}, {
			ID: "LIMIT-243", Name: "two-limits-of-one-account-are-refused", Clause: "R5", run: oneAccountTwice, Needs: driver.Claims{driver.AtomicMulti},
			Why:    "which of two limits on one account a call keeps is anybody's guess: it is a mistake, and says so",
			Remedy: "the client refuses it before the store is asked",
		},
	}
}

// twoLimits asks for n of a limit per user and of one for all.
func (e *env) twoLimits(c *coord.Client, name string, limit driver.Limit, n int) []coord.Result {
	r, err := c.AllowAll(e.within(soon), coord.Demand{Key: e.key(name + " all"), Limit: limit, N: n}, coord.Demand{Key: e.key(name + " user"), Limit: limit, N: n})
	e.noError(err, "AllowAll under "+name)
	if len(r) != 2 || r[0].Allowed != r[1].Allowed {
		e.Fatalf("AllowAll under %s: saw %+v, want two results, both allowed or neither", name, r)
	}
	return r
}

func allowAll(e *env) {
	c := e.client()
	for name, limit := range still(10) {
		e.allows(c, e.key(name+" user"), limit, 7, "AllowN under "+name)
		r := e.twoLimits(c, name, limit, 4)
		if r[0].Allowed || r[0].RetryAfter != 0 || r[1].RetryAfter <= 0 {
			e.Errorf("4 and 4 with 10 and 3 left under %s: saw %+v, want a denial with the second's RetryAfter", name, r)
		}
		r = e.twoLimits(c, name, limit, 3)
		if !r[0].Allowed || r[0].Granted != 3 || r[0].Remaining != 7 || r[1].Granted != 3 || r[1].Remaining != 0 {
			e.Errorf("3 and 3 with 10 and 3 left under %s, after a denial of 4 and 4: saw %+v, want 3 granted of each, 7 and 0 left", name, r)
		}
	}
}

func oneAccountTwice(e *env) {
	c, key := e.client(), e.key("k")
	for name, two := range map[string][2]driver.Limit{
		"two bursts of a token bucket":      {{Rate: 1, Per: year, Burst: 5}, {Rate: 1, Per: year, Burst: 10}},
		"two rates of a sliding window":     {{Rate: 5, Per: year}, {Rate: 10, Per: year}},
		"two rates of a fixed window":       {{Rate: 5, Per: year, Algorithm: driver.FixedWindow}, {Rate: 10, Per: year, Algorithm: driver.FixedWindow}},
		"a rate of a bucket in other words": {{Rate: 1, Per: year / 2, Burst: 5}, {Rate: 2, Per: year, Burst: 10}},
	} {
		_, err := c.AllowAll(e.within(soon), coord.Demand{Key: key, Limit: two[0], N: 1}, coord.Demand{Key: key, Limit: two[1], N: 1})
		e.wantError(err, "AllowAll of "+name, coord.ErrInvalid)
		for _, limit := range two {
			r, err := c.Peek(e.within(soon), key, limit)
			e.noError(err, "Peek after AllowAll of "+name)
			if n := normal(limit).Max(); r.Remaining != n {
				e.Errorf("left of %v after AllowAll of %s was refused: saw %d, want %d", limit, name, r.Remaining, n)
			}
		}
	}
	r, err := c.AllowAll(e.within(soon),
		coord.Demand{Key: key, Limit: driver.Limit{Rate: 10, Per: year, Burst: 3}, N: 1},
		coord.Demand{Key: key, Limit: driver.Limit{Rate: 100, Per: year, Burst: 5}, N: 1},
		coord.Demand{Key: key, Limit: driver.Limit{Rate: 4, Per: year}, N: 1},
		coord.Demand{Key: key, Limit: driver.Limit{Rate: 2, Per: year / 2}, N: 1})
	e.noError(err, "AllowAll of limits that count on different accounts of one key")
	for i, want := range []int{2, 4, 3, 1} {
		if len(r) != 4 || !r[i].Allowed || r[i].Remaining != want {
			e.Errorf("AllowAll of limits on different accounts of one key: saw %+v, want one taken of each", r)
			break
		}
	}
}

// allowAllInTurn spends the limits one after the other, as a client does whose store
// has no other way, and so needs a store that gives back.
func allowAllInTurn(e *env) {
	b := e.open()
	if !e.info.Claims.Has(driver.Reserve) {
		if e.info.Claims.Has(driver.AtomicMulti) {
			e.Unsupported("the store gives nothing back, and takes several limits in one step")
		}
		e.Logf("the store cannot give back, and so AllowAll is refused")
		_, err := e.clientOn(b, coord.WithBestEffort()).AllowAll(e.ctx, coord.Demand{Key: e.key("k"), Limit: driver.Limit{Rate: 1, Per: year}, N: 1})
		e.wantError(err, "AllowAll, best effort", coord.ErrUnsupported)
		return
	}
	c := e.clientOn(inTurn{b}, coord.WithBestEffort())
	for name, limit := range still(10) {
		if limit.Algorithm == driver.TokenBucket {
			continue // what is due at once cannot be given back
		}
		if r := e.twoLimits(c, name, limit, 7); !r[0].Allowed {
			e.Errorf("7 and 7 of 10 and 10 under %s: saw %+v, want them granted", name, r)
		}
		e.allows(c, e.key(name+" user"), limit, 3, "AllowN under "+name)
		if r := e.twoLimits(c, name, limit, 1); r[0].Allowed {
			e.Errorf("1 and 1 with 3 and 0 left under %s: saw %+v, want a denial", name, r)
		}
		e.until(2*time.Second, "what was taken before a denial to be given back under "+name, func() bool {
			r, err := c.Peek(e.within(soon), e.key(name+" all"), limit)
			e.noError(err, "Peek under "+name)
			return r.Remaining == 3
		})
	}
}

// inTurn is a store that takes several limits one by one.
type inTurn struct{ driver.Backend }

func (s inTurn) Info() driver.Info {
	info := s.Backend.Info()
	info.Claims = info.Claims.Without(driver.AtomicMulti)
	return info
}
