package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/holders"
)

// A key that several hold has a node, its guard. Those who share the key have nodes under it.
//
// Whoever adds a node there writes to the guard in the same transaction, at the version that came with the listing by
// which it was granted. To remove a node needs no such write: it is safe to count a hold that has gone. Each
// transaction also checks the incarnation, a child of the guard with a random name, because versions start again when a
// guard was removed and made again.
func (b *backend) guardPath(key string) string {
	name := escape(key)
	return b.guardsDir(bucketOf(name)) + "/" + name
}

func (b *backend) guardsDir(bucket byte) string { return fmt.Sprintf("%s/shared/%02x", b.root, bucket) }

// maxHolders is the most holders of a key: each of them reads the names of all.
const maxHolders = 256

// group is who shares a key, as one listing shows it. The zero group has no guard.
type group struct {
	node  string // the incarnation
	stat  zk.Stat
	holds []sharer // with the shares that are left
	heads []string // tags
}

// group lists who shares a key, as a server that has caught up shows it if sync. Version and names come in one reply.
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
	return groupOf(dir, names, *stat)
}

// groupOf reads a listing. A child that is not ours is driver.ErrCorrupt: it may be a hold that we do not understand.
func groupOf(dir string, names []string, stat zk.Stat) (group, error) {
	g := group{stat: stat}
	var marks []sharer
	for _, name := range names {
		s, isOurs := parseSharer(name)
		switch {
		case isHex(name, incarnationLen) && g.node == "":
			g.node = dir + "/" + name
		case !isOurs:
			return group{}, fmt.Errorf("%w: node %s has a child %.100q: want one of version 1", driver.ErrCorrupt, dir, name)
		case s.kind == kindHold:
			g.holds = append(g.holds, s)
		case s.kind == kindMark:
			marks = append(marks, s)
		default:
			g.heads = append(g.heads, s.tag)
		}
	}
	if g.node == "" || stat.DataLength != 0 {
		return group{}, fmt.Errorf("%w: node %s has %d bytes of data and the children %.100q: want none, and one incarnation",
			driver.ErrCorrupt, dir, stat.DataLength, names)
	}
	for _, m := range marks {
		if h := g.find(m.tag); h != nil && h.version == m.version {
			h.share = h.share.Shrunk(m.share)
		}
	}
	return g, nil
}

// find gives the hold of a tag, nil if there is none.
func (g *group) find(tag string) *sharer {
	for i := range g.holds {
		if g.holds[i].tag == tag {
			return &g.holds[i]
		}
	}
	return nil
}

// decide gives slot and bound of a grant to a tag that has no hold, or why it is refused: what the record of holders
// says where no lease ends.
func (g *group) decide(tag string, share driver.Share) (driver.Grant, error) {
	now := time.Unix(0, 0)
	live := now.Add(driver.HeadFor).UnixMicro()
	var r holders.Record
	for _, h := range g.holds {
		r.Holds = append(r.Holds, holders.Hold{ID: h.tag, Share: h.share, Slot: h.slot, TTL: live, Until: live})
	}
	for _, head := range g.heads {
		if head != tag {
			r.Head = holders.Mark{ID: head, Until: live}
		}
	}
	grant, err := r.TryLock(driver.Request{ID: tag, TTL: driver.HeadFor, Share: share}, now, holders.Rules{MaxHolders: maxHolders})
	if errors.Is(err, driver.ErrLocked) {
		err = driver.ErrLocked // for how long, nobody knows
	}
	return grant, err
}

// errRaced is a change that another client came before.
var errRaced = errors.New("zookeeper: another client changed the key meanwhile")

// change makes a change to a group in one transaction, and gives the guard's Stat after it. A guard that is not there
// is made.
//
// The guard is written to last: a server that lists meanwhile then shows the old version beside the new nodes.
func (b *backend) change(dir string, g *group, inner ...any) (*zk.Stat, error) {
	ops, dirs := []any{&zk.CheckVersionRequest{Path: g.node, Version: -1}}, []string(nil)
	if g.node == "" {
		ops, dirs = b.limitOps(dir, newIncarnation(dir), []byte{}), []string{path.Dir(dir)}
	}
	ops = append(append(ops, inner...), &zk.SetDataRequest{Path: dir, Data: []byte{}, Version: g.stat.Version})
	answers, err := b.write(ops, dirs)
	switch {
	case isConflict(err):
		return nil, errRaced
	case err != nil:
		return nil, err
	case len(answers) != len(ops) || answers[len(ops)-1].Stat == nil:
		return nil, fmt.Errorf("zookeeper: unexpected answer %+v to a change of %s", answers, dir)
	}
	return answers[len(ops)-1].Stat, nil
}

// isCold looks whether nobody shares a key, and nobody did after until. To remove such a guard is always safe.
func (b *backend) isCold(ctx context.Context, dir string, until int64) (l litter, cold bool, err error) {
	g, err := call(ctx, b, func() (group, error) { return b.group(dir, false) }, nil)
	switch {
	case errors.Is(err, zk.ErrNoAuth), errors.Is(err, driver.ErrCorrupt): // not ours
		return l, false, nil
	case err != nil || g.stat.NumChildren != 1 || g.stat.Mtime*1000 > until:
		return l, false, err
	}
	return litter{dir, g.node, 0}, true, nil
}
