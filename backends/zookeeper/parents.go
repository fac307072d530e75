package zookeeper

import (
	"context"
	"errors"
	"path"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// A lock's queue has a parent node, which outlives the lock. The server removes parents that are empty, but
// 10,000 a minute at most: a client that locks a thousand keys a second would fill its memory. So
// each client removes those that it uses no more. What a client leaves that ends, the server removes.
const (
	// parentRests is for how long the parent of a lock that was released stays: to make it again costs
	// three requests.
	parentRests = 10 * time.Second
	// maxIdleParents bounds what a client remembers. Those beyond are left to the server.
	maxIdleParents = 50_000
	// parentBatch is how many one transaction removes: their paths fit in a request of a megabyte.
	parentBatch = 100
	// sweepWithin bounds the requests of one look.
	sweepWithin = 20 * time.Second
)

// used notes that this client has a node under dir, or is about to make one. backend.mu is held.
func (b *backend) used(dir string) { delete(b.idleParents, dir) }

// released notes that this client removed a node from dir, which may be empty now.
func (b *backend) released(dir string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.idleParents) >= maxIdleParents || b.closed {
		return
	}
	b.idleParents[dir] = time.Now()
	if !b.sweeping {
		b.sweeping = true
		b.work.Go(b.sweepParents)
	}
}

// sweepParents removes parents that rest, until none is left.
func (b *backend) sweepParents() {
	ctx := context.Background()
	for b.pause(ctx, b.parentRests/10) {
		ctx, cancel := context.WithTimeout(ctx, sweepWithin)
		// What fails is left to the server.
		_ = b.run(ctx, func() error { return b.removeParents(b.restedParents()) }, nil)
		cancel()
		if !b.sweepsOn() {
			return
		}
	}
}

// sweepsOn reports whether parents rest. If not, the next that does is for another sweep.
func (b *backend) sweepsOn() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweeping = len(b.idleParents) > 0
	return b.sweeping
}

// restedParents takes those that have rested for long enough.
func (b *backend) restedParents() (dirs []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for dir, since := range b.idleParents {
		if now.Sub(since) >= b.parentRests {
			delete(b.idleParents, dir)
			delete(b.parents, dir)
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// removeParents removes those that are empty, many in one transaction. That fails as a whole at one that is in use, which is left
// out then, or has gone. Where the server's own look has been, many have gone: what is left, one request tells.
func (b *backend) removeParents(dirs []string) error {
	for len(dirs) > 0 {
		batch := dirs[:min(len(dirs), parentBatch)]
		ops := make([]any, len(batch))
		for i, dir := range batch {
			ops[i] = &zk.DeleteRequest{Path: dir, Version: -1}
		}
		answers, err := b.conn.Multi(ops...)
		if err == nil {
			dirs = dirs[len(batch):]
			continue
		}
		failed := firstFailure(answers, err)
		if failed < 0 {
			return err
		}
		dirs = slices.Delete(dirs, failed, failed+1)
		if errors.Is(err, zk.ErrNoNode) {
			if dirs, err = b.thereStill(dirs); err != nil {
				return err
			}
		}
	}
	return nil
}

// thereStill leaves the parents that the server has.
func (b *backend) thereStill(dirs []string) ([]string, error) {
	names, err := b.list(b.root+"/locks", false)
	has := make(map[string]bool, len(names))
	for _, name := range names {
		has[name] = true
	}
	return slices.DeleteFunc(dirs, func(dir string) bool { return !has[path.Base(dir)] }), err
}
