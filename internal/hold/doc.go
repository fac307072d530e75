// Package hold is the engine behind locks. It takes, keeps and gives back the locks of one client, on any store.
// It does not know the client, owners or re-entry.
//
// The way of one lock, from file to file:
//
//	attempt.go   Begin, Run: a place in the local queue, and the grant
//	acquire.go   the calls on the store until it grants the key, or something ends the wait
//	shared.go    the same for a key that several hold
//	place.go     a shared hold that a signal ends
//	tenure.go    what its holder has: one tenure of a hold
//	release.go   Release to the store
//	handoff.go   Release to the next goroutine of this client, without the store
//	loss.go      the end of a hold that is lost
//	renew.go     what is due for a hold: renewals and deadlines
//
// What these work with:
//
//	manager.go      Manager, and how it stops
//	slot.go         a key: its queue, and the hold of it
//	waiter.go       an attempt as others of its key know it
//	lease.go        a hold at the store: its deadlines, its tenures and their end
//	events.go       what a Trace is told, in order
//	acquisition.go  what the store knows of an attempt, and then of its hold
//	queue.go        the queue of a key, first in, first out; it knows no hold
//	schedule.go     when something is due, by one timer and a heap; it does not know what
//	cleanup.go      what lost replies may have left at the store
//	token.go        fencing tokens
//	stats.go        what a Manager has, for tests
//
// Types depend on each other in one direction only: Place, Attempt, Tenure, Manager, slot, waiter, hold, tenure, and then
// those that know none of them.
//
// Mutexes are taken in this order: that of events, Manager, scheduler, hold; that of the janitor comes last. There
// is one exception: handOff takes that of its successor's events under Manager.mu. Nobody else can have it then.
package hold
