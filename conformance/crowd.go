package conformance

import (
	"fmt"
	"sync"
)

// meet runs functions at the same time, and returns when all have.
func meet(all ...func()) {
	var wg sync.WaitGroup
	for _, fn := range all {
		wg.Go(fn)
	}
	wg.Wait()
}

// parts runs a part of the case for each of all, at the same time. What fails is told with its name.
func parts[T any](e *env, all []T, part func(e *env, what T)) {
	var wg sync.WaitGroup
	for _, what := range all {
		wg.Go(func() { e.scopeOf(fmt.Sprint(what), func(e *env) { part(e, what) }) })
	}
	wg.Wait()
}

// crowd runs fn in so many goroutines for each of so many clients, and returns when all have.
func crowd[C any](clients, each int, open func() C, fn func(c C, client, goroutine int)) {
	var wg sync.WaitGroup
	for i := range clients {
		c := open()
		for j := range each {
			wg.Go(func() { fn(c, i, j) })
		}
	}
	wg.Wait()
}
