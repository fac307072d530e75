package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/driver"
)

// Shared implements driver.Backend: a hold is a node of the client's session, as that of a lock is. It is made in one
// transaction with a write to the guard of its key, at the version that was seen before the other holds were listed.
func (b *backend) Shared() driver.SharedLocker { return sharedLocker{b: b} }

type sharedLocker struct {
	driver.Unimplemented
	b *backend
}

var _ driver.SharedLocker = sharedLocker{}

// TryLock makes one attempt, without waiting. Two of one client on one key would only defeat each other.
func (l sharedLocker) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if err := checkShared(key, r); err != nil {
		return driver.Grant{}, err
	}
	unlock, err := l.b.turns.Lock(ctx, key)
	if err != nil {
		return driver.Grant{}, err
	}
	defer unlock()
	l.b.collects()
	return l.b.attempt(ctx, holdName{key, r.ID, true}, r, nil)
}

// Renew proves the hold of r.ID, and makes it smaller if r asks for less.
func (l sharedLocker) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if err := checkShared(key, r); err != nil {
		return driver.Grant{}, err
	}
	return l.b.renew(ctx, holdName{key, r.ID, true}, r)
}

// RenewAll implements driver.Locker: one transaction proves all holds, and one each makes some smaller.
func (l sharedLocker) RenewAll(ctx context.Context, holds []driver.Hold) []driver.Renewal {
	return l.b.renewAll(ctx, holds, true)
}

// Unlock ends the hold of id, or its headship.
func (l sharedLocker) Unlock(ctx context.Context, key, id string) error {
	if err := checkHold(key, id); err != nil {
		return err
	}
	return l.b.unlock(ctx, holdName{key, id, true}, 0)
}

// NotifyLost implements driver.Locker.
func (l sharedLocker) NotifyLost(fn func(key, id string, cause error)) {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	l.b.lostShared = fn
}

// Break implements driver.Breaker, as for locks.
func (l sharedLocker) Break(ctx context.Context, key, id string) error {
	if err := checkHold(key, id); err != nil {
		return err
	}
	b, dir := l.b, l.b.guardPath(key)
	return b.run(ctx, func() error {
		g, err := b.group(dir, true)
		if err != nil {
			return err
		}
		h := g.find(tagOf(id))
		if h == nil {
			return driver.ErrNotHeld
		}
		return b.revoke(dir+"/"+h.node, id)
	}, nil)
}

// BreakNow ends the hold of id, or its headship, also a hold that was broken.
func (l sharedLocker) BreakNow(ctx context.Context, key, id string) error {
	if err := checkHold(key, id); err != nil {
		return err
	}
	return l.b.unlock(ctx, holdName{key, id, true}, -1)
}

// Holders shows who holds key, in the order of the grants. TTL is the most that it can be, if all clients have the
// session timeout that this one has.
func (l sharedLocker) Holders(ctx context.Context, key string) ([]driver.Holder, error) {
	if err := checkHold(key, "holders"); err != nil {
		return nil, err
	}
	return call(ctx, l.b, func() ([]driver.Holder, error) { return l.b.holders(l.b.guardPath(key)) }, nil)
}

func (b *backend) holders(dir string) (live []driver.Holder, err error) {
	g, err := b.group(dir, true)
	if err != nil {
		return nil, err
	}
	for _, s := range g.holds {
		h, err := b.holderAt(dir+"/"+s.node, s.tag)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return nil, err
		}
		h.Slot, h.Mode, h.Weight, h.Of = s.slot, s.share.Mode, s.share.Weight, s.share.Of
		live = append(live, h)
	}
	slices.SortFunc(live, func(a, b driver.Holder) int { return cmp.Compare(a.Token, b.Token) })
	return live, nil
}

// NotifyChanges implements driver.SharedLocker, by a watch of the guard's children.
func (l sharedLocker) NotifyChanges(ctx context.Context, key string, changed func()) error {
	if err := checkHold(key, "changes"); err != nil {
		return err
	}
	b, dir := l.b, l.b.guardPath(key)
	for {
		w, err := call(ctx, b, func() (*watch, error) {
			w, _, err := b.watchNode(dir, true)
			return w, err
		}, nil)
		if err != nil {
			return err
		}
		changed()
		select {
		case <-w.done:
		case <-ctx.Done():
			return ctx.Err()
		case <-b.calls.Life().Done():
			return driver.ErrClosed
		}
	}
}

func checkShared(key string, r driver.Request) error {
	if err := r.Share.Check(); err != nil {
		return err
	}
	if r.Fair {
		return fmt.Errorf("%w: fair: a shared hold has no queue at the store", driver.ErrUnsupported)
	}
	return checkRequest(key, r)
}
