package conformance_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
)

// Bugs of members of a quorum.
var voteMutants = []mutant{
	{
		name: "floor that is ignored", bug: "tokens of members stay apart, and no majority has one in common", sound: "voting",
		new: voting(voteBug{grant: func(r *driver.Request) { r.Floor = 0 }}), killers: []string{"LOCK-98"},
	}, {
		name: "floor without a bound", bug: "a client whose clock is ahead moves all later tokens ahead with it", sound: "voting",
		new: voting(voteBug{far: true}), killers: []string{"LOCK-98"},
	}, {
		name: "floor of a renewal that is ignored", bug: "the greatest token is on one member only", sound: "voting",
		new: voting(voteBug{renewal: func(r *driver.Request) { r.Floor = 0 }}), killers: []string{"LOCK-98"},
	}, {
		name: "floor of a renewal that is bounded", bug: "a member whose clock is behind does not store the token of the others", sound: "voting",
		new: voting(voteBug{renewal: func(r *driver.Request) {
			r.Floor = min(r.Floor, time.Now().Add(driver.FloorRange).UnixMicro())
		}}), killers: []string{"LOCK-98"},
	}, {
		name: "token that is raised in the answer", bug: "a renewal shows the floor, and stores nothing", sound: "voting",
		new: voting(voteBug{shown: true}), killers: []string{"LOCK-98"},
	}, {
		name: "repeated attempt that raises the token", bug: "an attempt whose reply was lost finds another token", sound: "voting",
		new: voting(voteBug{again: true}), killers: []string{"LOCK-98"},
	}, {
		name: "run that lasts", bug: "the run is a name of the server, and not of its process", sound: "voting",
		new: voting(voteBug{answer: func(g *driver.Grant) { g.Run = "always" }}), killers: []string{"LOCK-99"},
	}, {
		name: "run of a store that forgets", bug: "the store says that it forgets nothing", sound: "voting",
		new: voting(voteBug{answer: func(g *driver.Grant) { g.Run = "" }}), killers: []string{"LOCK-99"},
	}, {
		name: "age of the machine", bug: "the age is that of the server's machine, which has not restarted", sound: "voting",
		new: voting(voteBug{answer: func(g *driver.Grant) { g.Age = time.Hour }}), killers: []string{"LOCK-99"},
	},
}

// voteBug is what is wrong with a voter. The zero value is a sound one.
type voteBug struct {
	grant, renewal    func(*driver.Request) // change what is asked for
	answer            func(*driver.Grant)
	far, shown, again bool
}

// voting is a store that forgets everything when it restarts, and tells so.
func voting(bug voteBug) func() harness {
	return func() harness {
		var current atomic.Pointer[memory.Store]
		current.Store(memory.NewStore())
		return harness{
			Open: func(conformance.TB) driver.Backend {
				s := current.Load()
				return voter{s.Open(), fmt.Sprintf("%p", s), time.Now(), bug}
			},
			Claims: memory.Claims,
			Faults: &conformance.Faults{
				Kill:    func(conformance.TB) {},
				Restart: func(conformance.TB) { current.Store(memory.NewStore()) },
			},
		}
	}
}

type voter struct {
	store
	run   string
	since time.Time
	bug   voteBug
}

func (v voter) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	floor := r.Floor
	if v.bug.grant != nil {
		v.bug.grant(&r)
	}
	g, err := v.store.TryLock(ctx, key, r)
	if err == nil && floor != 0 && (v.bug.far || v.bug.again && g.Token < floor) {
		r.Floor = floor
		g, err = v.store.Renew(ctx, key, r)
	}
	if err == nil && floor != 0 {
		g.Run, g.Age = v.run, time.Since(v.since)
		if v.bug.answer != nil {
			v.bug.answer(&g)
		}
	}
	return g, err
}

func (v voter) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	floor := r.Floor
	if v.bug.renewal != nil {
		v.bug.renewal(&r)
	}
	if v.bug.shown {
		r.Floor = 0
	}
	g, err := v.store.Renew(ctx, key, r)
	if err == nil && v.bug.shown {
		g.Token = max(g.Token, floor)
	}
	return g, err
}
