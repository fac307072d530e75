package zookeeper

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/driver"
)

// What follows makes requests and waits for their answers: it runs in a call,
// or in the background.

// background runs fn in a goroutine, false after Close. Over a connection of our own Close waits for it, and then
// there is nothing left to do. The application's connection may be silent, and outlives
// the backend: there fn goes on by itself.
func (b *backend) background(fn func()) bool {
	if b.wire != nil {
		return b.calls.Go(fn)
	}
	go fn()
	return true
}

// parent makes sure that dir is there and a queue of ours.
func (b *backend) parent(dir string) error {
	if b.used(dir) {
		return nil
	}
	for range 10 { // others may remove it meanwhile
		data, stat, err := b.conn.Get(dir)
		switch {
		case err == nil && len(data) == 0 && stat.EphemeralOwner == 0:
			b.foundParent(dir)
			return nil
		case err == nil:
			return fmt.Errorf("%w: node %s has data, or an owner: want an empty one", driver.ErrCorrupt, dir)
		case !errors.Is(err, zk.ErrNoNode):
			return err
		}
		_, err = b.conn.CreateContainer(dir, []byte{}, zk.FlagContainer, b.acl)
		if errors.Is(err, zk.ErrNoNode) {
			err = b.makePath(path.Dir(dir))
		}
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	return fmt.Errorf("%w: node %s is removed as often as it is made", driver.ErrNotSent, dir)
}

// makePath makes persistent nodes down to dir.
func (b *backend) makePath(dir string) error {
	for i := 1; i <= len(dir); i++ {
		if i < len(dir) && dir[i] != '/' {
			continue
		}
		if ok, _, err := b.conn.Exists(dir[:i]); err != nil {
			return err
		} else if ok {
			continue
		}
		if _, err := b.conn.Create(dir[:i], []byte{}, zk.FlagPersistent, b.acl); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	return nil
}

// makeDir makes a persistent node, and those above it if there are none.
func (b *backend) makeDir(dir string) error {
	_, err := b.conn.Create(dir, []byte{}, zk.FlagPersistent, b.acl)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return b.makePath(dir)
	case errors.Is(err, zk.ErrNodeExists):
		return nil
	}
	return err
}

// create puts a node at the end of the queue.
//
// The parent is written to, so that its Stat comes with the answer: the number of
// its children, and the id of this very transaction.
func (a *attempt) create(session int64) (ticket, error) {
	b, e := a.b, a.e
	name := e.dir + "/" + e.prefix()
	for range 10 {
		if err := b.parent(e.dir); err != nil {
			return ticket{}, err
		}
		e.stray = true
		r, err := b.conn.Multi(
			&zk.CreateRequest{Path: name, Data: []byte(e.id), Acl: b.acl, Flags: zk.FlagEphemeralSequential},
			&zk.SetDataRequest{Path: e.dir, Data: []byte{}, Version: -1})
		e.stray = err == nil || !answered(err)
		switch {
		case errors.Is(err, zk.ErrNoNode): // a container that was empty for a while is removed
			b.forgetParent(e.dir)
			continue
		case errors.Is(err, zk.ErrNoChildrenForEphemerals):
			b.forgetParent(e.dir)
			return ticket{}, fmt.Errorf("%w: node %s is ephemeral", driver.ErrCorrupt, e.dir)
		case err != nil:
			return ticket{}, err
		case len(r) != 2 || r[1].Stat == nil || !strings.HasPrefix(r[0].String, name):
			return ticket{}, fmt.Errorf("zookeeper: unexpected answer %+v to a create", r)
		}
		return ticket{path: r[0].String, session: session, token: r[1].Stat.Mzxid, alone: r[1].Stat.NumChildren == 1}, nil
	}
	return ticket{}, fmt.Errorf("%w: node %s is removed as often as it is made", driver.ErrNotSent, e.dir)
}

// list gives a queue, as a server that has caught up shows it.
func (b *backend) list(dir string, sync bool) ([]string, error) {
	if sync {
		if _, err := b.conn.Sync(dir); err != nil {
			return nil, err
		}
	}
	children, _, err := b.conn.Children(dir)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return children, err
}

// remove deletes a node, whatever became of it; nil if it is gone.
func (b *backend) remove(node string) error {
	err := b.conn.Delete(node, -1)
	if errors.Is(err, zk.ErrNoNode) {
		err = nil
	}
	if dir := path.Dir(node); err == nil && strings.HasPrefix(dir, b.root+"/locks/") {
		b.released(dir)
	}
	return err
}
