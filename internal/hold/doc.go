// Package hold is the engine behind locks. It takes, keeps and gives back the locks of one client, on any store.
// It does not know the client, owners or re-entry.
//
// The way of one lock, from file to file:
//
//	attempt.go  Run: a place behind others of this client, and the grant
//	ask.go      the calls on the store until it grants the key, or something ends the wait
//	shared.go   the same for a key that several hold
//	place.go    a shared hold that a signal ends
//	release.go  Release, to the next goroutine of this client or to the store
//	renew.go    what is due for a hold: renewals and deadlines
//
// What these work with:
//
//	manager.go      Manager, and how it stops
//	key.go          a key: who asks for it, who queues, and the hold of it
//	lease.go        a hold at the store: its states, its deadlines and its end
//	tenure.go       what one holder has of a hold, as the holder sees it
//	events.go       what observers are told, in order
//	acquisition.go  what the store knows of an attempt, and then of its hold
//	refusal.go      who is in the way of a key
//	outage.go       how long a store may fail
//	schedule.go     when something is due, by one timer and a heap; it does not know what
//	cleanup.go      what lost replies may have left at the store
//	token.go        fencing tokens
//	stats.go        what a Manager has, for tests
//
// An attempt and a hold are in one of a few phases each, and Manager.mu guards both:
//
//	attempt   outside → queued → asking → outside             and, where a hold is handed to it:
//	                    queued → given  → outside             or back to queued, if that hold is lost before it is seen
//	hold      held → released → held …  by the next goroutine of this client
//	          held → over               to the store, or by a loss
//
// Mutexes are taken in this order: that of events, scheduler, Manager; that of the janitor is taken alone.
package hold
