// Package limitmodel judges the limits of a store by a model that is written from
// docs/contract.md alone, and shares nothing with the arithmetic that stores use.
//
// The model keeps what was granted: when, how many and by which limit. It knows
// the bounds of clause R1 and which limits share an account by clause R3. A random
// walk asks a store through package driver, by limits that change between
// calls, and each grant has to be within the bounds. Where the clock stands still
// between calls the walk also holds the store to what it answers: what remains can be
// had, and a request that was denied is granted after its RetryAfter, not before.
//
// A second walk lets goroutines of several clients ask, wait, give up, reset and take permits in
// advance on a store in memory that is a round trip away and loses replies, and counts them by the same model.
//
// The tests of the stores make the first walk, always the same one. -model.steps makes it longer, and -model.seed another one:
//
//	go test ./backends/memory -run LimitsKeepToTheModel -model.steps=1000000 -model.seed=2
package limitmodel
