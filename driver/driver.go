// Package driver is what an adapter implements to bring a store to coord.
//
// An application uses package coord, which puts the same waiting, renewal,
// deadlines, re-entry, queues, validation and errors above every store; of this
// package it needs the names of the claims, [ParseURL], and [Open] and [Split] to
// combine stores. An
// adapter says how its store does one atomic step, in the store's own idiom, and
// nothing more. It starts no renewal, keeps no re-entry count, retries no refusal
// and logs nothing. It makes itself known by [Register].
//
// # What every method owes its caller
//
//   - It returns within ctx plus 100 ms, whatever the network does.
//   - It is safe for concurrent use.
//   - Keys arrive raw and validated, with the client's prefix: any UTF-8 of 1
//     byte or more, at most 1024 bytes plus the prefix (at most 256). The adapter encodes them
//     injectively: two different keys never share state, and a lock and a
//     limit of the same key do not either.
//   - From a call that changes the store only the definite errors, those for
//     which [Definite] is true, say what happened. After any other error,
//     a cancelled ctx among them, the outcome is unknown: the change may have
//     been made, may yet be made, or may never be.
//   - It returns the store's own errors or this package's sentinels, wrapped
//     at most by %w. Package coord adds operation, backend and key, once.
//
// Prove an adapter with package conformance; docs/writing-an-adapter.md shows
// the way from nothing to a green suite.
package driver

import (
	"context"
	"iter"
	"net/url"
	"time"
)

// Backend is an open store. An adapter embeds [Unimplemented], which answers for what its store
// cannot do, and writes the rest. What a store can do, its claims say, and they alone: package coord
// never calls what needs a claim that is not made.
type Backend interface {
	// Info describes the store. It is cheap, does no I/O and always gives
	// the same answer.
	Info() Info
	// Close gives back what the backend itself opened. A client that the
	// application passed in stays open. Calls under way end with an error;
	// later calls answer ErrClosed. Close twice is fine. Under the claim
	// [PerHoldTTL] a hold that nobody has given back stays until its lease ends.
	Close() error

	Locker
	Queuer
	Limiter
	Operator

	// Shared gives the part of the store that keeps shared holds, always the same. It is asked for under the claim
	// [Shared].
	Shared() SharedLocker

	// Partition names the part of the store that a key lives on now, where parts can fail alone: one of several
	// memcached servers, one master of a Redis Cluster. The core never lets a call on one part wait for another part.
	// It does not block and makes no call; the name may change when the store is resharded. A store of one part
	// gives "".
	Partition(key string) string
}

// OpenFunc opens the store that u names. It connects and probes within ctx,
// and refuses an unknown query parameter with [ErrInvalid].
type OpenFunc func(ctx context.Context, u *url.URL) (Backend, error)

// Info is what a backend says of itself.
type Info struct {
	// Name is the scheme: "redis", "etcd", "memory".
	Name string
	// Server is the product and version that was found, "" where unknown.
	Server string
	// MinTTL is the shortest lease the store grants. A shorter one is raised to it.
	MinTTL time.Duration
	// TTLStep is the resolution of leases. A TTL is rounded up to a multiple. Zero
	// means 1 ns.
	TTLStep time.Duration
	// MaxTTL is the longest lease; a longer one is ErrInvalid. Zero means no bound.
	MaxTTL time.Duration
	// MaxKey is the longest key in bytes, prefix included. Zero means no bound of
	// the store's own. Package coord keeps two of the bytes for itself. A key may
	// have any byte, also NUL.
	MaxKey int
	// Claims are the capabilities that the conformance suite proves both ways.
	Claims Claims
}

// Locker is the lock half of a backend: leases on keys, each held by one id.
//
// An id is new for every acquisition and stays the same over its polls and
// retries. It is printable ASCII without spaces, at most [MaxID] bytes, so that
// the store itself can show who holds; [ParseID] reads it.
type Locker interface {
	// TryLock makes one attempt to take key for r.ID, without waiting.
	//
	// It answers ErrLocked (or a [LockedError] that says for how long) while
	// another id has a live lease. If r.ID itself holds, it answers the same
	// token as before and never shortens the lease, so that a repeated
	// attempt after a lost reply is safe; once that lease has expired it is a
	// fresh attempt with a greater token.
	TryLock(ctx context.Context, key string, r Request) (Grant, error)

	// Renew extends the lease of r.ID to r.TTL from now. ErrNotHeld if r.ID
	// does not hold the key: Renew never creates, never revives and never
	// shortens. The token stays.
	Renew(ctx context.Context, key string, r Request) (Grant, error)

	// Unlock ends the hold of id, and withdraws id from the store's queue
	// where there is one. ErrNotHeld if id neither holds nor waits; a hold
	// of any other id is left alone.
	Unlock(ctx context.Context, key, id string) error

	// UnlockAfter ends id's ownership now, as Unlock does, but keeps the key
	// taken for d from now: until then TryLock answers ErrLocked, and
	// afterwards the key is free with no further call. d is at most
	// Info.MaxTTL. It is for MinHold, under the claim [MinHoldAfterExit]. Without
	// that the core keeps the hold, and unlocks when it is due.
	UnlockAfter(ctx context.Context, key, id string, d time.Duration) error

	// RenewAll renews many holds in few requests. It answers for each hold, in order, what Renew would have. A store
	// that has no such request gives nil: then the core renews one by one, a bounded number at a time.
	RenewAll(ctx context.Context, holds []Hold) []Renewal

	// NotifyLost registers fn, once, before the first lock, under the claim [LossPush]: the store tells it of
	// losses. fn does not block. It may be called before the call that is granted the hold has returned: then that
	// hold is lost as soon as it is there. Without the claim the core learns of a loss at the next renewal or at the
	// deadline.
	NotifyLost(fn func(key, id string, cause error))
}

// Request asks for a lease. It grows by fields whose zero value means an
// exclusive hold of one permit; a non-zero field that an adapter does not know
// is ErrUnsupported.
type Request struct {
	// ID names the acquisition.
	ID string
	// TTL is how long the lease lasts without renewal, already rounded up to
	// Info.TTLStep and between Info.MinTTL and Info.MaxTTL.
	TTL time.Duration
	// Fair asks that nobody who came later be granted before this request.
	// Only a store that claims [Fair] is asked for it.
	Fair bool
	// Whole asks for a lease that begins with this grant: Grant.Since is not
	// before the call. A store whose holds share a lease restarts it; on any
	// other it is so anyway. The core asks it of holds that nobody renews.
	Whole bool
	// Share says how the hold shares its key. Only a [SharedLocker] is asked for other than the zero Share.
	Share Share
	// Floor is what a member of a quorum is asked for; only a store that claims [Vote] is. [Request.NewToken] is then
	// the token of a new hold. A renewal raises the token of the hold, and what later ones are counted from, to Floor. A
	// repeated attempt does not.
	Floor int64
}

// FloorRange is how far from the store's clock a Floor makes a token begin.
const FloorRange = 15 * time.Second

// NewToken is the token of a new hold after the key's last one: greater than last, and at least r.Floor as far as that
// is within FloorRange of now, the store's clock in Unix microseconds. So a client whose clock is wrong moves no token
// far, and a store that forgets its tokens counts on above them after twice FloorRange.
func (r Request) NewToken(last, now int64) int64 {
	const most = int64(FloorRange / time.Microsecond)
	return max(last+1, min(max(r.Floor, now-most), now+most))
}

// MaxToken is the greatest [Grant.Token]: it leaves the core room for its part of the fencing token.
const MaxToken = 1<<53 - 1

// Grant is a lease that the store gave or extended.
type Grant struct {
	// Token is the store's fencing value: 1 to MaxToken, strictly
	// greater for each later hold of the key, the same for repeated attempts
	// and renewals of one hold.
	Token int64
	// TTL is what the store really granted: the lease certainly lasts until
	// Since+TTL.
	TTL time.Duration
	// Since is a local instant not later than when the store started or
	// restarted the lease, with its monotonic reading (time.Now, not a parsed
	// time). Zero: the moment this call was sent. A Queuer
	// always sets it; a store with sessions sets when the last acknowledged
	// keepalive was sent.
	Since time.Time
	// Slot and Of are of shared holds: the lowest number from 0 that no other live hold of the key had, and the
	// bound on permits that counted, which is the least Share.Of of the live holds and of the request.
	Slot int
	Of   int64
	// Run and Age are of a TryLock with a [Request.Floor]. Run is printable, and another after each restart in which the
	// store may have forgotten holds; Age is how long this run has lasted, at least. An empty Run is that of a store that
	// forgets none. What is before the first dot of Run names the server: two members that have it in common are one.
	Run string
	Age time.Duration
}

// Hold names one hold in a batch.
type Hold struct {
	Key string
	Request
}

// Renewal is the answer for one [Hold] of a batch.
type Renewal struct {
	Grant Grant
	Err   error
}

// Queuer waits at the store, first in first out, woken by the store, under the claims [Fair] or
// [Wake]. Without them the core polls with jitter, one waiter per client and key.
//
// The core makes fair requests with Lock, and those that are likely to wait, without
// a TryLock before: Lock of a free key is to cost no more round trips.
type Queuer interface {
	// Lock waits until r.ID is granted or ctx ends. When ctx ends the queue
	// entry may remain: the core withdraws it with Unlock, and the store
	// skips waiters that died without doing so.
	//
	// It calls waits, at most once and before it returns, when the store has told it
	// that the request is not granted at once, and never for one that is. Until then
	// the core takes an error for that of a TryLock; after it, for the end of a place
	// in the queue.
	// waits does not block and does not call the backend.
	//
	// Once r.ID has had a place in the queue, ErrNotSent says that the
	// store has refused its client for a whole TTL, or the place: the core
	// does not ask again. Of an outage any other error tells.
	Lock(ctx context.Context, key string, r Request, waits func()) (Grant, error)
}

// Operator is what an operator sees and does, and what a program asks of its store as a whole.
type Operator interface {
	// Ping makes one round trip to the store. Where it is ErrUnsupported, that of a client does nothing.
	Ping(ctx context.Context) error

	// Describe tells how the store is set up, for reports and operators: settings by name. "topology"
	// says how many servers there are, in which roles; the others are those on which the store's
	// claims lean, named as the store names them. Names and values are short, and never secret.
	// What the store does not tell is left out. Describe may ask the store, within ctx.
	Describe(ctx context.Context) (map[string]string, error)

	// Check compares how the store is set up with what its locks and limits need, for coord doctor. It
	// looks at the servers within ctx and changes nothing that lasts. What the
	// store does not tell, or the user may not ask, is a Finding of [LevelSkip]. An error
	// means that no server answered.
	Check(ctx context.Context) ([]Finding, error)

	// Inspect reads the holder of key, under the claim [Inspect]. ErrNotHeld if the key is free.
	Inspect(ctx context.Context, key string) (Holder, error)

	// List yields the keys that begin with prefix and are held or kept taken, as they are given to TryLock, in any
	// order, under the claim [List]. A key that is so from the beginning to the end is yielded, perhaps more than
	// once; one that changes meanwhile may be left out. An error ends the sequence, with the key "". The end of ctx,
	// which is an error, ends it at once. A prefix of "" is every key's.
	//
	// It reads in pages, so that no request of it holds up others for long, and each call begins again.
	List(ctx context.Context, prefix string) iter.Seq2[string, error]

	Breaker
}

// Breaker revokes holds, under the claim [Break]. Without the claim BreakNow of the core frees what is held alone, by
// Unlock.
type Breaker interface {
	// Break makes every later Renew and Unlock of id answer ErrNotHeld while
	// the key stays taken until id's lease lapses, so that the holder learns
	// of it before anyone else is granted. ErrNotHeld if id does not hold. The
	// holder's own Unlock may free the key, though it answers ErrNotHeld.
	Break(ctx context.Context, key, id string) error
	// BreakNow is Unlock that also frees what is only kept taken because id held it: after Break, or UnlockAfter. A
	// key that another id has, or that is kept for another, is left alone. ErrNotHeld if there is nothing of id's.
	BreakNow(ctx context.Context, key, id string) error
}
