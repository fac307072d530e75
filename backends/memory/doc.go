// Package memory is the store in the memory of one process: the reference for
// every other backend, the store of tests and examples, and the right choice
// for locks and limits that only goroutines of one process share.
//
//	s := memory.NewStore()
//	a, b := s.Open(), s.Open() // two clients of one store
//
// By URL, memory:// is a fresh store at each opening, and memory://name is one
// store per name in the process, which lives until the process ends. There are
// no query parameters.
//
// # What it promises
//
// Waiters are granted strictly in the order in which they came, by direct
// hand-over: TryLock and newcomers never overtake. Leases and limits run on the
// monotonic clock, so that a step of the wall clock neither ends a lease nor
// creates a permit. Tokens are counted for the whole store, from 1, and so
// increase for each key even after the key was forgotten. All state ends with
// the process.
//
// During calls, the store forgets keys that are not held, not waited for and
// not in debt: a constant amount of work per call. It runs no goroutine of its
// own.
package memory
