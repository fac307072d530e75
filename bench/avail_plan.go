package main

import (
	"math/rand/v2"
	"slices"
	"time"
)

// availProcesses is how many processes want the one lock, or campaign.
const availProcesses = 8

// fault is something that happens to one process, or to the store, at a time of the run.
type fault struct {
	At     time.Duration `json:"at_ns"`
	For    time.Duration `json:"for_ns,omitempty"` // how long it is frozen; 0 of a kill
	Worker int           `json:"worker"`           // storeFault for the store
	Kill   bool          `json:"kill,omitempty"`
	// Leader: it happens to the process that leads then, and to Worker only if nobody does.
	Leader bool `json:"leader,omitempty"`
	Resign bool `json:"resign,omitempty"`
}

// storeFault is the Worker of a fault that freezes the store.
const storeFault = -1

// faultPlan is what a seed makes happen during a run of length d with leases of ttl:
// at any time one process is frozen, for up to 2.5 TTL; one is killed every four seconds;
// the store is frozen every eight seconds, for up to half a TTL. Every subject meets the same
// faults at the same times.
func faultPlan(seed uint64, d, ttl time.Duration) (plan []fault) {
	r := rand.New(rand.NewPCG(seed, 0))
	upTo := func(limit time.Duration) time.Duration {
		return time.Duration(r.Int64N(int64(limit))) + time.Millisecond
	}
	for at := time.Duration(0); at < d; {
		f := fault{At: at, For: upTo(ttl * 5 / 2), Worker: r.IntN(availProcesses)}
		plan = append(plan, f)
		at += f.For
	}
	for at := 4 * time.Second; at < d; at += 4 * time.Second {
		plan = append(plan, fault{At: at, Worker: r.IntN(availProcesses), Kill: true})
	}
	for at := 8 * time.Second; at < d; at += 8 * time.Second {
		plan = append(plan, fault{At: at + upTo(time.Second), For: upTo(ttl / 2), Worker: storeFault})
	}
	slices.SortStableFunc(plan, func(a, b fault) int { return int(a.At - b.At) })
	return plan
}

// leadPlan is faultPlan for leaders, who change only when something happens to them: every other process that is
// frozen, and every other one that is killed, is the leader of that moment. It resigns every four seconds besides.
// Kills come up to a second later than in faultPlan: a process starts when another was killed, so that leases that are
// renewed every second would all be nearly over at the next kill.
func leadPlan(seed uint64, d, ttl time.Duration) []fault {
	plan := faultPlan(seed, d, ttl)
	later := rand.New(rand.NewPCG(seed, 1))
	freezes, kills := 0, 0
	for i := range plan {
		switch f := &plan[i]; {
		case f.Kill:
			f.At += time.Duration(later.Int64N(int64(time.Second)))
			f.Leader = kills%2 == 0
			kills++
		case f.Worker != storeFault:
			f.Leader = freezes%2 == 0
			freezes++
		}
	}
	for at := 2 * time.Second; at < d; at += 4 * time.Second {
		plan = append(plan, fault{At: at, Leader: true, Resign: true})
	}
	slices.SortStableFunc(plan, func(a, b fault) int { return int(a.At - b.At) })
	return plan
}
