package main

import (
	"math/rand/v2"
	"slices"
	"time"
)

// availProcesses is how many processes want the one lock.
const availProcesses = 8

// fault is something that happens to one process, or to the store, at a time of the run.
type fault struct {
	At     time.Duration `json:"at_ns"`
	For    time.Duration `json:"for_ns,omitempty"` // how long it is frozen; 0 of a kill
	Worker int           `json:"worker"`           // storeFault for the store
	Kill   bool          `json:"kill,omitempty"`
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
