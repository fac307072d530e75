// Package cas makes a whole backend, locks and limits, out of one thing that a
// simple store can do: replace a small value atomically.
//
// The author of an adapter writes [Cells], or, for a store that offers a read
// and a compare-and-swap by version, the simpler [Versions] and makes Cells of it
// with [Optimistic]. [New] puts leases, fencing tokens, delayed release,
// inspection, revocation, limits, reservations and refunds above it:
//
//	func New(client *kv.Client) (driver.Backend, error) {
//		return cas.New(info, cas.Optimistic(versions{client})), nil
//	}
//
// # Cells
//
// A lock has one cell. It is a line of text that an operator can read:
//
//	coord-lock 2 held token=1763711409000000 ttl=30000000 until=1763711439000000 id=app@host/4711/1763711409000/0a…
//
// until is when the lease ends, in Unix microseconds on the store's clock. The
// state kept instead of held says that nobody holds any more and the key is kept
// taken until then; the state free that it may be taken, and that the cell is
// there for the token of its last hold.
//
// A key that several hold has one cell too, with a line for each hold. There may be [MaxHolders] of them.
//
// A limit has one cell for each state of its key, see [limits.Name].
//
// # Clocks
//
// The end of a lease is a time on the store's clock. Take it from the reply that [Loaded] is made of, if
// the store puts it there: then nothing is supposed of any client's clock. A [Clock] follows one that is seen only
// now and then, and leaves a small error; without any of the store's, the clients' own
// clocks have to do. Both need [WithSkew].
//
// # Tokens
//
// The token of a new hold is the greater of the last token plus one and the
// store's clock in microseconds. A cell is kept for [TokenMemory] after its lease,
// so that tokens rise even if the clock is set back, as long as it is not set
// back by more than that while the key is idle.
//
// # Unknown outcomes
//
// When a cell's update fails in a way that leaves open whether it was made, the
// call fails, with that error, and nothing is repeated: the core knows how to
// resolve it, and what may have been debited is never debited twice.
package cas
