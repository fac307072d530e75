package conformance

import (
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// patience is how long the checker may look for an order of the operations of one key. That is
// exponential at worst; the histories are cut so that it takes milliseconds.
const patience = 5 * time.Second

// record begins a history of the case.
func (e *env) record(h heading) *history {
	h.Case, h.Store, h.Seed = e.c.ID, e.info.Name, e.r.report.Seed
	return newHistory(h)
}

// linearizable fails the case unless each key of each history is.
func (e *env) linearizable(all ...*history) {
	if answered(all) == 0 && !e.overworked(e.began, e.ttl) {
		e.Errorf("histories: saw no operation that was answered, want some: they show nothing")
	}
	var wg sync.WaitGroup
	for _, h := range all {
		for key, ops := range h.byKey() {
			wg.Go(func() { e.judge(h.heading, key, ops) })
		}
	}
	wg.Wait()
}

func (e *env) judge(head heading, key string, ops []operation) {
	start := time.Now()
	v, err := head.check(ops, patience)
	if err != nil {
		e.Errorf("history of %s: %v", key, err)
		return
	}
	e.measure("check of a history", time.Since(start))
	e.count("operations checked", len(ops))
	if unknown := countUnknown(ops); unknown > 0 {
		e.count("operations of unknown outcome", unknown)
	}
	switch v.result {
	case porcupine.Ok:
	case porcupine.Unknown:
		e.count("histories not decided", 1)
		e.Logf("history of %s: %d operations, %d of unknown outcome, were not decided within %v", key, len(ops), countUnknown(ops), patience)
	default:
		saved, drawn, err := v.save(head, ops)
		if err != nil {
			saved, drawn = "nowhere: "+err.Error(), "not drawn"
		}
		e.Errorf("history of %s: saw %d operations that no order explains under the %s model, want a linearizable history; it is saved in %s and drawn in %s", key, len(ops), head.Model, saved, drawn)
	}
}

// answered counts the operations of which something was learned.
func answered(all []*history) int {
	n := 0
	for _, h := range all {
		for _, ops := range h.byKey() {
			n += len(slices.DeleteFunc(ops, func(o operation) bool { return o.Result == resUnknown || o.Result == resNothing }))
		}
	}
	return n
}

func countUnknown(ops []operation) int {
	n := 0
	for i := range ops {
		if ops[i].Result == resUnknown {
			n++
		}
	}
	return n
}
