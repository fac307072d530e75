package conformance

import (
	"time"

	"github.com/coordgo/coord/driver"
)

// voteCases are about what a member of a quorum is asked for.
func voteCases() []Case {
	return []Case{
		{
			ID: "LOCK-98", Name: "a-floor-is-under-the-token", Clause: "L2", run: floors, Proves: driver.Vote,
			Why:    "majorities of a quorum that have one member in common count on from what that one has stored",
			Remedy: "take the token of a new hold from Request.NewToken, and store what a renewal raises it to; or do not claim vote",
		}, {
			ID: "LOCK-99", Name: "a-restart-that-forgets-is-told", Clause: "L2", run: tellsRestarts,
			Needs: driver.Claims{driver.Vote}, Hooks: []Hook{HookRestart},
			Why:    "a member that has lost its leases and votes at once gives a majority to a second holder (Kleppmann on Redlock)",
			Remedy: "give a Run that is new with each process that may have forgotten leases, and its Age",
		},
	}
}

// floors asks for tokens by a floor: near the store's clock, far from it, and by renewals.
func floors(e *env) {
	const second = int64(time.Second / time.Microsecond)
	l, key := e.open(), e.key("k")
	hold := func(floor int64) (driver.Request, int64) {
		r := e.req(e.long)
		r.Floor = floor
		return r, e.take(l, key, r).Token
	}
	renew := func(r driver.Request, floor int64) int64 {
		r.Floor = floor
		g := e.renew(l, key, r, "Renew")
		return g.Token
	}
	start := time.Now()
	r, low := hold(1)
	e.end(l, key, r.ID, "Unlock")
	near := low + 10*second
	r, token := hold(near)
	if low > start.UnixMicro() {
		e.Logf("the store counts ahead of the clock, by an earlier run: it is not judged whether a floor is met")
	} else if token != near {
		e.Errorf("token with a floor of %d, %d above the last: saw %d, want the floor", near, near-low, token)
	}
	e.end(l, key, r.ID, "Unlock")
	r, high := hold(driver.MaxToken)
	if most := max(token, low+2*driver.FloorRange.Microseconds()) + time.Since(start).Microseconds() + 2*second; high <= token || high > most {
		e.Errorf("token with the greatest floor: saw %d, want it above the last, %d, and at most %d, near the clock", high, token, most)
	}
	again := r
	again.Floor = high + second
	if g := e.take(l, key, again); g.Token != high {
		e.Errorf("token of a repeated attempt with a greater floor: saw %d, want the hold's %d", g.Token, high)
	}
	raised := high + 1_000_000*second // renewals count by no clock
	if got := renew(r, raised); got != raised {
		e.Errorf("token after a renewal with a floor of %d: saw %d", raised, got)
	}
	for _, floor := range []int64{0, low} {
		if got := renew(r, floor); got != raised {
			e.Errorf("token after a renewal with a floor of %d: saw %d, want %d kept", floor, got, raised)
		}
	}
	e.end(l, key, r.ID, "Unlock")
	r, next := hold(1)
	rises(e, "who came after one that was raised", next, raised)
	e.end(l, key, r.ID, "Unlock")
}

// tellsRestarts restarts the store, which has either kept a hold or tells of another run.
func tellsRestarts(e *env) {
	ask := func(l driver.Locker, key string) (driver.Request, driver.Grant) {
		r := e.req(e.long)
		r.Floor = 1
		return r, e.take(l, key, r)
	}
	l, key := e.open(), e.key("k")
	r, before := ask(l, key)
	if _, other := ask(l, e.key("other")); other.Run != before.Run {
		e.Errorf("run of two grants: saw %q and %q, want the same without a restart", before.Run, other.Run)
	}
	killed := time.Now()
	killAndRestart(e)
	l = e.open()
	_, after := ask(l, e.key("later"))
	if before.Run == "" && after.Run == "" {
		e.renew(l, key, r, "Renew after a restart of a store that says that it forgets nothing")
		return
	}
	if after.Run == before.Run || after.Run == "" {
		e.Errorf("run after a restart: saw %q after %q, want another", after.Run, before.Run)
	}
	if since := time.Since(killed); after.Age > since+time.Second {
		e.Errorf("age of a run that began with a restart %v ago: saw %v", since, after.Age)
	}
}
