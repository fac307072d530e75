package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/driver"
)

// guard is the state of the node that a shared key has, as last seen.
//
// Whoever adds a hold or a head under it writes to it, at the version at which it knew who else is there. What is
// taken away needs no write: to rely on a hold that has gone is safe. The incarnation, the guard's child with a random
// name, is checked by each such transaction. As with limits, versions start anew with each node, and a
// request that stalled on its way names an incarnation that was removed.
type guard struct {
	node    string // the incarnation; "": there is no guard
	version int32
}

func (b *backend) guardPath(key string) string {
	name := escape(key)
	return b.guardsDir(bucketOf(name)) + "/" + name
}

func (b *backend) guardsDir(bucket byte) string {
	return fmt.Sprintf("%s/shared/%02x", b.root, bucket)
}

func isIncarnation(name string) bool {
	return len(name) == incarnationLen && strings.Trim(name, "0123456789abcdef") == ""
}

// group lists who shares a key, as a server that has caught up shows it if sync.
//
// The version comes in the same reply, as it was before the listing. So a server that applies a transaction while it
// lists shows, at worst, the old version beside the new holds: change writes the guard last.
func (b *backend) group(dir string, sync bool) (group, error) {
	if sync {
		if _, err := b.conn.Sync(dir); err != nil {
			return group{}, err
		}
	}
	names, stat, err := b.conn.Children(dir)
	if errors.Is(err, zk.ErrNoNode) {
		return group{}, nil
	}
	if err != nil {
		return group{}, err
	}
	return groupOf(dir, names, stat)
}

// errRaced is a change that another client came before.
var errRaced = errors.New("zookeeper: another client changed the key meanwhile")

// change makes a change under guard g in one transaction, and gives the guard after it and its Stat. A guard that is
// not there is made.
func (b *backend) change(dir string, g guard, inner ...any) (guard, *zk.Stat, error) {
	ops := []any{&zk.CheckVersionRequest{Path: g.node, Version: -1}}
	isNew := g.node == ""
	if isNew {
		g.node = newIncarnation(dir)
		ops = b.limitOps(dir, g.node, []byte{})
	}
	ops = append(ops, inner...)
	ops = append(ops, &zk.SetDataRequest{Path: dir, Data: []byte{}, Version: g.version})
	answers, err := b.conn.Multi(ops...)
	if isNew && errors.Is(err, zk.ErrNoNode) {
		if err := b.makeDir(path.Dir(dir)); err != nil {
			return guard{}, nil, notMade(err)
		}
		answers, err = b.conn.Multi(ops...)
	}
	switch {
	case isConflict(err):
		return guard{}, nil, errRaced
	case errors.Is(err, zk.ErrNoChildrenForEphemerals):
		return guard{}, nil, fmt.Errorf("%w: node %s, or the one above, is ephemeral", driver.ErrCorrupt, dir)
	case err != nil:
		return guard{}, nil, err
	case len(answers) != len(ops) || answers[len(ops)-1].Stat == nil:
		return guard{}, nil, fmt.Errorf("zookeeper: unexpected answer %+v to a change of %s", answers, dir)
	}
	stat := answers[len(ops)-1].Stat
	return guard{g.node, stat.Version}, stat, nil
}

// isCold looks whether nobody shares a key, and nobody did after until. To remove such a guard is always safe.
func (b *backend) isCold(ctx context.Context, dir string, until int64) (l litter, cold bool, err error) {
	type listing struct {
		names []string
		stat  *zk.Stat
	}
	seen, err := call(ctx, b, func() (listing, error) {
		names, stat, err := b.conn.Children(dir)
		return listing{names, stat}, err
	}, nil)
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNoAuth) {
		return l, false, nil
	}
	if err != nil || len(seen.names) != 1 || seen.stat.Mtime*1000 > until {
		return l, false, err
	}
	g, err := groupOf(dir, seen.names, seen.stat)
	if err != nil { // not ours
		return l, false, nil
	}
	return litter{dir, g.guard.node, 0}, true, nil
}

// maxFree bounds what is remembered of keys that nobody held.
const maxFree = 10_000

// left notes that the hold of e has just been given up. If it was the only one at its grant, nobody has the key as
// long as the guard's version is the same.
func (e *entry) left() {
	b := e.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if !e.sharing.alone {
		return
	}
	if len(b.free) >= maxFree {
		clear(b.free)
	}
	b.free[e.dir] = e.sharing.guard
}

// takeFree gives the guard at which nobody has the key, once.
func (b *backend) takeFree(dir string) (g guard, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g, ok = b.free[dir]
	delete(b.free, dir)
	return g, ok
}
