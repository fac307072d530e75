// Package hold is the engine behind locks. It takes, keeps and gives back the locks of one client, on any store.
// It does not know the client, owners or re-entry.
//
// The way of one lock, from file to file:
//
//	attempt.go   Begin, Run: a place in the local queue, and the grant
//	queue.go     the local queue of a key, first in, first out
//	acquire.go   the calls on the store until it grants the key, or something ends the wait
//	lease.go     a hold at the store, its tenures, deadlines and loss
//	renew.go     renewals and deadlines of all holds, by one timer and a heap
//	handoff.go   Release to the next goroutine of this client, without the store
//	release.go   Release to the store
//	cleanup.go   what lost replies may have left at the store
//	events.go    what a Trace is told, in order
//	manager.go   Manager, and how it stops
//	token.go     fencing tokens
//	stats.go     what a Manager has, for tests
//
// Mutexes are taken in this order: that of events, Manager, scheduler, hold; that of the janitor comes last. There
// is one exception: handOff takes that of its successor's events under Manager.mu. Nobody else can have it then.
package hold
