package conformance

import (
	"context"
	"fmt"
	"runtime/pprof"
	"strings"
	"time"
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
			e.pass(10 * time.Millisecond)
			base, _ = e.labelled(label)
		}
		e.scope(use)
		start = time.Now()
		for now, all := e.labelled(label); now > base; now, all = e.labelled(label) {
			if time.Since(start) > 5*settle {
				e.Fatalf("goroutines after all clients were closed: saw %d, want the %d that the first one had left:\n%s", now, base, all)
			}
			e.pass(10 * time.Millisecond)
		}
	})
}

// labelled counts the goroutines with that label, and gives their stacks.
func (e *env) labelled(label string) (n int, all string) {
	var b strings.Builder
	e.noError(pprof.Lookup("goroutine").WriteTo(&b, 1), "profile of goroutines")
	_, list, _ := strings.Cut(b.String(), "\n") // after the heading
	for _, block := range strings.Split(list, "\n\n") {
		if strings.Contains(block, label) {
			var same int // goroutines with this stack
			_, err := fmt.Sscan(block, &same)
			e.noError(err, "number of goroutines in a profile")
			n += same
			all += block + "\n\n"
		}
	}
	return n, all
}
