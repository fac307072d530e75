package coord

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/errs"
	"github.com/coordgo/coord/internal/hold"
)

// space is one of the sets of keys of a Client. Keys of different spaces have nothing to do with each other.
type space uint8

const (
	exclusive space = iota // of Lock and TryLock
	readWrite
	semaphore
	condition // of those who wait in a Cond
)

// suffixes distinguish shared keys and their queues from locks, whose keys have no NUL, and from each other.
var suffixes = [...]string{readWrite: "\x00r", semaphore: "\x00s", condition: "\x00c"}

func spaceOf(share driver.Share) space {
	switch share.Mode {
	case driver.Read, driver.Write:
		return readWrite
	case driver.Permits:
		return semaphore
	}
	return exclusive
}

// space is the one that the lock's key is of.
func (l *Lock) space() space { return spaceOf(l.h.t.Share()) }

// Slot is the lowest number from 0 that no other live hold of a shared key had when this one was granted: the number of
// a worker, a shard or a licence. Two live holds of a key never have the same. It is 0 for an exclusive lock.
func (l *Lock) Slot() int { return l.h.t.Slot() }

// ReadWrite is the read/write locks of a Client. Make it with [Client.ReadWrite].
type ReadWrite struct{ c *Client }

// ReadWrite gives the client's read/write locks: any number of readers of a key, or one writer. They have nothing to
// do with [Client.Lock] of the same key: a Lock and a writer do not exclude each other. A client that uses a key both ways
// logs that once.
//
// They are as exclusive locks are: leases, renewed, lost before anyone else is granted, given back when their
// holder dies, with a fencing token each. What differs:
//
//   - Tokens rise over all holds of a key. At the resource [Guard.CheckRead] and [Guard.CheckWrite] keep two
//     marks, so that a reader refuses no other reader.
//   - A refused request, of a reader or of a writer, joins a queue. While the first in the queue waits nobody else is
//     granted: no stream of readers keeps a writer waiting. Between one grant and the next a newcomer may slip in. With [Fair]
//     everybody queues.
//   - A writer may enter again as a reader. When its last Unlock as a writer comes first, the hold becomes a reader's in
//     one step, and no writer gets between. A reader that asks to write is refused at once, with ErrInvalid.
//   - A key has at most driver.MaxHolders readers, on some stores fewer. One more is ErrUnsupported.
//
// On a store that does not claim driver.Shared, their calls are ErrUnsupported.
func (c *Client) ReadWrite() ReadWrite { return ReadWrite{c} }

// Read gives the readers' side: a Locker whose locks admit other readers.
func (rw ReadWrite) Read() *Shared { return &Shared{rw.c, driver.Share{Mode: driver.Read}} }

// Write gives the writers' side: a Locker whose locks admit nobody else.
func (rw ReadWrite) Write() *Shared { return &Shared{rw.c, driver.Share{Mode: driver.Write}} }

// Semaphore gives locks that n hold at once, over all clients of the store. With [Weight] one lock takes several of the n
// permits. It has nothing to do with locks or read/write locks of the same key. What is said of leases, the queue
// and the number of holders at [Client.ReadWrite] holds here too.
//
// n is 1 to 2^52. It is not stored: clients may ask with different n, as during a deployment that changes it. The
// least n of those who hold some and of who asks counts then, and is logged once.
//
// Fence with the token by [Lock.Slot]: two holds never have one slot at the same time, and its tokens rise.
func (c *Client) Semaphore(n int) *Shared {
	return &Shared{c, driver.Share{Mode: driver.Permits, Of: int64(n)}}
}

// Shared is a Locker whose locks several may hold at once. Make it with [ReadWrite.Read], [ReadWrite.Write] or
// [Client.Semaphore]. It is safe for concurrent use.
type Shared struct {
	c     *Client
	share driver.Share
}

// Lock waits until it holds key, or ctx ends. See [Locker].
func (s *Shared) Lock(ctx context.Context, key string, opts ...LockOption) (*Lock, error) {
	s.warnOfMixture(key)
	return s.c.lock(ctx, "lock", s.share, key, opts, false)
}

// TryLock makes one attempt to hold key. See [Locker].
func (s *Shared) TryLock(ctx context.Context, key string, opts ...LockOption) (*Lock, error) {
	s.warnOfMixture(key)
	return s.c.lock(ctx, "trylock", s.share, key, opts, true)
}

// warnOfMixture logs, once for a client, that a key is used by Lock too, which excludes nobody here.
func (s *Shared) warnOfMixture(key string) {
	if s.c.locks.Holds(s.c.prefix + key) {
		s.c.mixture.Do(func() {
			s.c.log.Warn("coord: a key is used both by Lock and by a read/write lock or a semaphore, which do not exclude each other", "key", key)
		})
	}
}

// Held gives the lock on key that an enclosing [Do] of this Shared, or of another one of the same kind, holds. A reader's
// is not given to the writers' side. That Do unlocks it.
func (s *Shared) Held(ctx context.Context, key string) (*Lock, bool) {
	l, ok := heldIn(ctx, spaceOf(s.share), key)
	if !ok || s.share.Mode == driver.Write && l.h.t.Share().Mode != driver.Write {
		return nil, false
	}
	return l, true
}

// Holders shows who holds key: readers and writers on either side of a ReadWrite, and all holders of a semaphore,
// whatever its n. Those with Released were broken, and count until their lease ends. It is empty if nobody holds it.
// The holders come in the order of their tokens. It is one request, whose cost grows with their number.
func (s *Shared) Holders(ctx context.Context, key string) ([]Holder, error) {
	holders, err := s.holders(ctx, key)
	if err != nil {
		return nil, s.c.fail("holders", key, err)
	}
	return holders, nil
}

func (s *Shared) holders(ctx context.Context, key string) ([]Holder, error) {
	full, err := s.fullKey(key)
	if err != nil {
		return nil, err
	}
	holders, err := s.c.store.shared.Holders(ctx, full)
	if err != nil {
		return nil, errs.OfStore(ctx, err, false)
	}
	for i := range holders {
		if holders[i].Token, err = hold.MakeToken(int64(holders[i].Token), s.c.floor, 0); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(holders, func(a, b Holder) int { return cmp.Compare(a.Token, b.Token) })
	return holders, nil
}

// fullKey is the key as the store has it, if there is one that can be asked.
func (s *Shared) fullKey(key string) (string, error) {
	full, err := s.c.openKey(key)
	switch {
	case err != nil:
		return "", err
	case s.c.shared == nil:
		return "", ErrUnsupported
	}
	return full + suffixes[spaceOf(s.share)], nil
}

// Break revokes one hold, as [Client.Break] does. What it holds of the key stays taken until its lease ends. holderID is
// Holder.ID from Holders.
func (s *Shared) Break(ctx context.Context, key, holderID string) error {
	return s.c.revoke(ctx, key, s.breakable, func(full string) error { return s.c.store.shared.Break(ctx, full, holderID) })
}

// BreakNow ends one hold at once, as [Client.BreakNow] does, also one that was broken.
func (s *Shared) BreakNow(ctx context.Context, key, holderID string) error {
	return s.c.revoke(ctx, key, s.breakable, func(full string) error { return s.c.store.shared.BreakNow(ctx, full, holderID) })
}

// breakable is fullKey, where holds can be broken.
func (s *Shared) breakable(key string) (string, error) {
	full, err := s.fullKey(key)
	if err == nil && !s.c.store.claims.Has(driver.Break) {
		err = ErrUnsupported
	}
	return full, err
}

// Watch gives the holders of key, as [Shared.Holders] shows them without those that were broken: the present ones, and
// then after each change that it sees. No holder is an empty slice.
//
// An error of the store is given once, and Watch goes on. ErrInvalid, ErrUnsupported, ErrClosed and the end of ctx, whose
// error it matches, end the sequence; so does the end of the loop.
//
// Watch asks the store once in a period, which is that of [Client.Watch], by the shortest lease that it sees.
func (s *Shared) Watch(ctx context.Context, key string) iter.Seq2[[]Holder, error] {
	return watchOver(ctx, s.c, key, func() watched[[]Holder] { return &groupWatch{s: s, key: key} })
}

// weigh completes what is asked for by the options of a call.
func (cfg *lockConfig) weigh(share driver.Share) (driver.Share, error) {
	if share.Mode != driver.Permits {
		if cfg.weight != 0 {
			return share, fmt.Errorf("%w: Weight of a lock that is no semaphore's", ErrInvalid)
		}
		return share, nil
	}
	share.Weight = max(cfg.weight, 1)
	switch {
	case share.Of < 1 || share.Of > driver.MaxPermits:
		return share, fmt.Errorf("%w: a semaphore of %d: want 1 to %d", ErrInvalid, share.Of, int64(driver.MaxPermits))
	case share.Weight > share.Of:
		return share, fmt.Errorf("%w: %d of %d", ErrExceedsBound, share.Weight, share.Of)
	}
	return share, nil
}

func (s *Shared) itself() (*Client, space) { return s.c, spaceOf(s.share) }

// connectShared makes the engine of keys that several hold, if the store keeps them.
func (c *Client) connectShared(engine hold.Config) {
	shared := c.store.shared
	if shared == nil {
		return
	}
	engine.Store = hold.Store{Locker: shared, Pushes: c.store.Pushes, Parts: c.store.Parts}
	engine.Changes, engine.Queues = shared, c.locks
	engine.PlaceLease = roundTTL(driver.HeadFor, c.info) // that of the head's mark, which keeps newcomers away
	c.shared = hold.New(engine)
}
