package zookeeper

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/driver"
)

// Unlock implements driver.Locker.
func (b *backend) Unlock(ctx context.Context, key, id string) error {
	if err := checkHold(key, id); err != nil {
		return err
	}
	return b.unlock(ctx, holdName{key: key, id: id}, 0)
}

// unlock removes the nodes of an id at that version: 0 leaves a hold that was broken, -1 none. The node of a hold of
// this client is of version 0 unless it was revoked.
func (b *backend) unlock(ctx context.Context, name holdName, version int32) error {
	e, err := b.turn(ctx, name)
	if err != nil {
		return err
	}
	node, broken := e.held()
	if version == 0 && broken {
		e.end()
		return driver.ErrNotHeld
	}
	remove := func() error { return b.removeAny(e, version) }
	if version == 0 && node != "" {
		remove = func() error { return b.conn.Delete(node, 0) }
	}
	err = b.run(ctx, remove, func(err error) {
		_ = e.removed(node, err)
		e.end()
	})
	if errors.Is(err, errLeft) {
		return err
	}
	defer e.end()
	return e.removed(node, err)
}

// removed takes in what came of the removal of the nodes of an id, of which node holds; "" if none does.
func (e *entry) removed(node string, err error) error {
	switch {
	case err == nil && !e.shared:
		e.b.released(e.dir)
	case err == nil || errors.Is(err, driver.ErrNotHeld):
	case errors.Is(err, zk.ErrNoNode):
		err = driver.ErrNotHeld
	case errors.Is(err, zk.ErrBadVersion):
		e.revoked(node)
		return driver.ErrNotHeld
	default:
		return err
	}
	e.stray = false
	e.dropNode(node)
	return err
}

// removeAny removes the nodes of an id, whoever made them, at that version. Marks come last: without them the hold is
// greater. A stray of this session goes although an operator broke it: nobody holds by it.
func (b *backend) removeAny(e *entry, version int32) error {
	if _, err := e.find(b.conn.SessionID()); err != nil {
		return err
	}
	names, err := b.list(e.dir, true)
	if err != nil {
		return err
	}
	slices.Sort(names)
	result := driver.ErrNotHeld
	for _, name := range names {
		if !strings.HasPrefix(name, e.prefix()) {
			continue
		}
		switch err := b.conn.Delete(e.dir+"/"+name, version); {
		case err == nil && !isMark(name):
			result = nil
		case err == nil, errors.Is(err, zk.ErrNoNode), !e.shared && errors.Is(err, zk.ErrBadVersion):
		default:
			return err
		}
	}
	return result
}
