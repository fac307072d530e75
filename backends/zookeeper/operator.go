package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/driver"
)

// revokedMark is put before the id of a hold that was revoked.
const revokedMark = "revoked "

// Inspect implements driver.Operator. What is left of the lease, only the server that
// the holder is connected to knows: TTL is the most that it can be, if its session's
// timeout is as ours.
func (b *backend) Inspect(ctx context.Context, key string) (driver.Holder, error) {
	if err := checkHold(key, "inspect"); err != nil {
		return driver.Holder{}, err
	}
	return call(ctx, b, func() (driver.Holder, error) { return b.holder(b.lockDir(key)) }, nil)
}

func (b *backend) holder(dir string) (driver.Holder, error) {
	for range 10 {
		children, err := b.list(dir, true)
		if err != nil {
			return driver.Holder{}, err
		}
		p, err := placeOf(children, "")
		if err != nil {
			return driver.Holder{}, err
		}
		if p.head.name == "" {
			return driver.Holder{}, driver.ErrNotHeld
		}
		h, err := b.holderAt(dir+"/"+p.head.name, p.head.tag)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		h.Waiters = p.waiters
		return h, err
	}
	return driver.Holder{}, errors.New("zookeeper: the holder changed at every look")
}

// holderAt reads the node of a hold.
func (b *backend) holderAt(node, tag string) (driver.Holder, error) {
	data, stat, err := b.conn.Get(node)
	if err != nil {
		return driver.Holder{}, err
	}
	id, released := strings.CutPrefix(string(data), revokedMark)
	if tagOf(id) != tag {
		return driver.Holder{}, fmt.Errorf("%w: node %s holds %q", driver.ErrCorrupt, node, data)
	}
	h := driver.NewHolder(id, stat.Czxid, b.timeout())
	h.Released = released
	return h, nil
}

// Break implements driver.Breaker: it writes to the holder's node, which is checked
// to be as it was created at every renewal and release.
func (b *backend) Break(ctx context.Context, key, id string) error {
	if err := checkHold(key, id); err != nil {
		return err
	}
	dir, tag := b.lockDir(key), tagOf(id)
	return b.run(ctx, func() error {
		children, err := b.list(dir, true)
		if err != nil {
			return err
		}
		p, err := placeOf(children, "")
		if err != nil {
			return err
		}
		if p.head.tag != tag {
			return driver.ErrNotHeld
		}
		return b.revoke(dir+"/"+p.head.name, id)
	}, nil)
}

// BreakNow implements driver.Breaker: the node of id goes, whatever was written to it.
func (b *backend) BreakNow(ctx context.Context, key, id string) error {
	if err := checkHold(key, id); err != nil {
		return err
	}
	return b.unlock(ctx, holdName{key: key, id: id}, -1)
}

// revoke writes to the node of a hold, once.
func (b *backend) revoke(node, id string) error {
	_, err := b.conn.Set(node, []byte(revokedMark+id), 0)
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) {
		return driver.ErrNotHeld
	}
	return err
}
