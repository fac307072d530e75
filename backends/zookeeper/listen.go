package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
)

// listen watches the doorbell until Close. While it does not, nothing is handed over.
func (b *backend) listen() {
	const least, most = 10 * time.Millisecond, 30 * time.Second
	node := b.doorbell(b.box)
	for pause := least; ; pause = min(2*pause, most) {
		began := time.Now()
		// Whatever the error was, it is tried again.
		if heard := b.listenOnce(node); heard && time.Since(began) > time.Second {
			pause = least
		}
		b.blinded(0, false)
		if !b.pause(context.Background(), pause) {
			break
		}
	}
	if b.wire == nil {
		// The session is the application's, and lives on.
		b.background(func() { _ = b.conn.Delete(node, -1) })
	}
}

// look is what was read at the doorbell, and what tells of the next ring.
type look struct {
	answer
	events <-chan zk.Event
}

// listenOnce hangs up the doorbell and watches it until that ends, and reports whether it was
// watched.
//
// A watch tells of one ring, and is then to be set again. The node's version counts those
// that came in between, of which only the last can be read.
func (b *backend) listenOnce(node string) (heard bool) {
	ctx := context.Background()
	if b.run(ctx, func() error { return b.hang(node) }, nil) != nil {
		return false
	}
	for version := int32(0); ; {
		seen, err := fly(ctx, b, func() (look, error) {
			data, stat, events, err := b.conn.GetW(node)
			return look{answer{data, stat}, events}, err
		}, nil)
		if err != nil {
			return heard
		}
		key, by, readable := readRing(seen.data)
		rings := seen.stat.Version - version
		version = seen.stat.Version
		switch {
		case heard && rings == 0:
			b.hears(true)
		case heard && rings == 1 && readable:
			b.hears(true)
			b.rung(key, by)
		default:
			// Whoever has rung before this had come before it.
			b.blinded(seen.stat.Mzxid, true)
		}
		heard = true
		select {
		case event := <-seen.events:
			b.hears(false)
			if event.Type != zk.EventNodeDataChanged {
				return heard
			}
		case <-b.closing:
			return heard
		}
	}
}

// hears notes whether the doorbell is watched.
func (b *backend) hears(heard bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bell.heard = heard
}

// hang makes the node, unless it is there: of this session, or of an earlier one that has not ended yet.
func (b *backend) hang(node string) error {
	dir := b.root + fairDir
	for range 10 { // the container is removed when the last doorbell has gone
		if err := b.parent(dir); err != nil {
			return err
		}
		_, err := b.conn.Create(node, []byte{}, zk.FlagEphemeral, b.acl)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			b.forgetParent(dir)
			continue
		case errors.Is(err, zk.ErrNodeExists):
			return nil
		}
		return err
	}
	return fmt.Errorf("zookeeper: node %s is removed as often as it is made", dir)
}

// countGrant counts, and has the doorbell watched when that is of use. backend.mu is held.
func (b *backend) countGrant() {
	f := &b.bell
	if f.fn == nil || f.grants >= listenFrom || b.closed {
		return
	}
	if f.grants++; f.grants == listenFrom {
		b.work.Go(b.listen)
	}
}
