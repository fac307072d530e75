// Package faults makes long runs of the conformance suite's histories, see docs/contributing/histories.md: clients, and processes that
// die, on clusters and single servers that are killed, paused and cut off meanwhile, and judges of what they were told.
//
// It attacks each store with processes that use the public API at random, and are frozen, killed and replaced while the store
// is. Each writes down what it was told, with the machine's monotonic clock, and a judge that knows nothing of coord looks for
// holds that certainly overlapped, tokens that fell, signals that were lost, waits behind the dead, and what is left at the end.
//
// It also counts what many keys, each used for a short time, leave behind in each store and in its client.
//
//	go test ./internal/repo/faults                            each fault of each store once
//	go test ./internal/repo/faults -for 10m                   each store for so long
//	go test ./internal/repo/faults -run TestChaosAttack -for 10m    the attacks alone
//	go test ./internal/repo/faults -run TestChaosEtcd -seed N  the choices of a run again; a run that fails prints this
package faults
