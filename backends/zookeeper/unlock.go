package zookeeper

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/driver"
)

// Unlock implements driver.Locker.
func (b *backend) Unlock(ctx context.Context, key, id string) error {
	if err := checkHold(key, id); err != nil {
		return err
	}
	return b.unlock(ctx, holdName{key: key, id: id})
}

func (b *backend) unlock(ctx context.Context, name holdName) error {
	e, withdrawn, err := b.turnOf(ctx, name)
	if err != nil {
		return err
	}
	node, broken := e.held()
	if broken {
		e.end()
		return driver.ErrNotHeld
	}
	if node != "" {
		return b.unlockOwn(ctx, e, node)
	}
	defer e.end()
	err = b.run(ctx, func() error { return b.removeAny(e, 0) }, nil)
	if withdrawn && errors.Is(err, driver.ErrNotHeld) {
		return nil
	}
	return err
}

// breakNow is unlock that also removes a node which was revoked.
func (b *backend) breakNow(ctx context.Context, name holdName) error {
	e, withdrawn, err := b.turnOf(ctx, name)
	if err != nil {
		return err
	}
	defer e.end()
	node, _ := e.held()
	err = b.run(ctx, func() error { return b.removeAny(e, -1) }, nil)
	if err == nil && node != "" {
		e.dropNode(node)
	}
	if withdrawn && errors.Is(err, driver.ErrNotHeld) {
		return nil
	}
	return err
}

// turnOf ends the wait of an entry, if it waits, and takes its turn: call end.
func (b *backend) turnOf(ctx context.Context, name holdName) (e *entry, withdrawn bool, err error) {
	if _, err := b.await(ctx); err != nil {
		return nil, false, err
	}
	e = b.enter(name)
	withdrawn = e.leaveLine()
	if err := e.begin(ctx); err != nil {
		e.leave()
		return nil, false, err
	}
	return e, withdrawn, nil
}

// leaveLine ends the wait of e, if it waits.
func (e *entry) leaveLine() bool {
	e.b.mu.Lock()
	defer e.b.mu.Unlock()
	if e.withdraw == nil {
		return false
	}
	close(e.withdraw)
	e.withdraw = nil
	return true
}

// unlockOwn removes the node of a hold of this client. It is of version 0 unless it
// was revoked.
func (b *backend) unlockOwn(ctx context.Context, e *entry, node string) error {
	remove := func() error { return b.conn.Delete(node, 0) }
	err := b.run(ctx, remove, func(err error) {
		_ = e.removed(node, err)
		e.end()
	})
	if errors.Is(err, errLeft) {
		return err
	}
	defer e.end()
	return e.removed(node, err)
}

// removed takes in what came of the removal of the node of a hold.
func (e *entry) removed(node string, err error) error {
	switch {
	case err == nil:
		e.dropNode(node)
		if !e.shared {
			e.b.released(e.dir)
		}
	case errors.Is(err, zk.ErrNoNode):
		e.dropNode(node)
		return driver.ErrNotHeld
	case errors.Is(err, zk.ErrBadVersion):
		e.revoked(node)
		return driver.ErrNotHeld
	}
	return err
}

// removeAny removes the nodes of an id, whoever made them, at that version: 0 leaves a hold that was broken, -1 none.
func (b *backend) removeAny(e *entry, version int32) error {
	if e.shared {
		return b.unlockShared(e, version)
	}
	children, err := b.list(e.dir, true)
	if err != nil {
		return err
	}
	result := driver.ErrNotHeld
	for _, c := range tagged(children, e.tag) {
		switch err := b.conn.Delete(e.dir+"/"+c.name, version); {
		case err == nil:
			b.released(e.dir)
			result = nil
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion):
		default:
			return err
		}
	}
	return result
}
