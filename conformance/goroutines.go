package conformance

import (
	"context"
	"runtime/pprof"
	"time"

	"github.com/coordgo/coord/conformance/internal/runner"
)

// leavesNoGoroutine fails the case if use leaves goroutines behind: those that descend from this one,
// which their label tells. first shows what one client leaves for good, as libraries do.
func (e *env) leavesNoGoroutine(first, use func(*env)) {
	label := e.key("label")
	pprof.Do(e.ctx, pprof.Labels("conformance", label), func(context.Context) {
		e.scope(first)
		const settle = time.Second
		start := time.Now()
		base, _ := e.labelled(label)
		for base > 1 && time.Since(start) < settle { // 1 is this one
			e.pass(settle / 10)
			base, _ = e.labelled(label)
		}
		e.scope(use)
		start = time.Now()
		for now, all := e.labelled(label); now > base; now, all = e.labelled(label) {
			if time.Since(start) > e.bound(5*settle) {
				e.Fatalf("goroutines after all clients were closed: saw %d, want the %d that the first one had left:\n%s", now, base, all)
			}
			e.pass(settle / 10)
		}
	})
}

// labelled counts the goroutines with that label, and gives their stacks.
func (e *env) labelled(label string) (n int, all string) {
	n, all, err := runner.Labelled(label)
	e.noError(err, "profile of goroutines")
	return n, all
}
