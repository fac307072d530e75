// Package optimistic decides limits on a store that has a read and a conditional write: optimistic concurrency
// control. It is for adapters that implement [driver.Limiter] themselves. Package cas, which makes a whole backend,
// needs less of the store and keeps no states.
//
// A [Table] makes the decisions. For each of them it
//
//   - waits until no other call of this client decides on the same state, so that they do not defeat each other;
//   - decides on the state that this client saw last, if the store's [Store.Trust] allows it, or else reads it;
//   - writes the new state on condition that the store still has the old one ([Store.Swap]);
//   - after a defeat takes in what the store has, pauses at random ([Backoff]), and decides again, until ctx ends.
//
// A decision that writes nothing, such as a denial or a peek, is made on a state that was read during the call.
//
// [Table.Lock] is the first of these alone, for an adapter that decides on something else than limits.
//
// A [Limiter] makes the methods of [driver.Limiter] out of one function, which changes a state.
//
// Several requests on one limit are not joined into one here: package coord does that above every adapter.
package optimistic
