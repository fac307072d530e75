// Package sim runs clients of the real engines over an embedded store, in the fake time of testing/synctest, and judges what
// they see. All of it is in its tests.
//
//	go test ./internal/sim            a set of seeds, and stores with one mistake; seconds of processor time
//	go test ./internal/sim -seed N    one seed again, with all that happened
//	go test ./internal/sim -seeds N   seeds 0 to N-1
//
// A seed says everything: which calls are late or lost, when a client is paused, its clock stepped, its process killed and
// replaced, and what its workers do. Draws depend on who makes a call, on which key, and on how often, and never on
// who comes first; latencies are random nanoseconds, so that no two events are in one moment by chance. So a run is repeated
// by its seed, unless the machine takes the processor away in the middle of a moment, or the race detector shuffles goroutines.
//
// A client that is paused sends and hears nothing; its goroutines go on, for fake time cannot stop them. Clocks that are
// stepped are the clients' wall clocks: the store's own cannot be set.
//
//	plan_test.go     what a seed says: theme, store, faults
//	world_test.go    a run: clients live, die and are replaced
//	link_test.go     the network between a client and the store, at the boundary of package driver
//	shape_test.go    which optional interfaces the store has
//	work*_test.go    what workers do: locks, shared keys and conditions, limits
//	judge_*_test.go  what should not be
//	bent_test.go     a store with one mistake
//	mutants_test.go  its mistakes; each is shown by a seed
//	engines_test.go  mistakes in the engines, which are compiled; COORD_SIM_MUTANTS=1 runs them, in minutes
//
// What is judged, by the name of a violation:
//
//	overlap    two hold what one may hold, or more permits than there are
//	untold     the store grants a key while its last holder has not been told of the loss
//	token      tokens do not rise, or are not unique
//	lost       a hold is lost without a fault
//	renewal    a hold is renewed too early, too late, or after it was given back
//	order      a fair waiter is overtaken, or the first in the queue of a shared key
//	forgotten  a waiter waits for what is free
//	first      a waiter for a shared key waits behind one who has died
//	lease      a hold outlives its lease
//	kept       a key is granted while MinHold keeps it taken
//	dead       somebody is granted a key long after its death
//	orphan     a living client has something at the store that it does not know of, and does nothing about it
//	signal     a signal that was sent wakes nobody
//	limit      more permits are granted than there are
//	denied     a request is denied that could be granted
//	late       a call returns after its context
//	error      a call fails without a fault
//	close      Close fails, or takes too long
//	held       the function of Do has no lock
package sim
