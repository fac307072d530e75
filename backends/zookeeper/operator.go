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

// Inspect implements driver.Inspector. What is left of the lease, only the server that
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
		data, stat, err := b.conn.Get(dir + "/" + p.head.name)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return driver.Holder{}, err
		}
		id, released := strings.CutPrefix(string(data), revokedMark)
		if tagOf(id) != p.head.tag {
			return driver.Holder{}, fmt.Errorf("%w: node %s/%s holds %q", driver.ErrCorrupt, dir, p.head.name, data)
		}
		h := driver.NewHolder(id, stat.Czxid, b.timeout())
		h.Released, h.Waiters = released, p.waiters
		return h, nil
	}
	return driver.Holder{}, errors.New("zookeeper: the holder changed at every look")
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
		_, err = b.conn.Set(dir+"/"+p.head.name, []byte(revokedMark+id), 0)
		if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) {
			return driver.ErrNotHeld
		}
		return err
	}, nil)
}
