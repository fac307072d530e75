package zookeeper

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	// collectEvery is how often a client that uses limits looks for those that say
	// no more than their absence.
	collectEvery = 20 * time.Second
	// collectMargin is how long after that they are removed: longer than clocks of
	// clients can be apart.
	collectMargin = 5 * time.Second
	// collectMost bounds the requests of one look.
	collectMost = 200
)

// collects starts the collector, once.
func (b *backend) collects() {
	if b.collecting.Swap(true) {
		return
	}
	b.start(func() {
		for b.pause(context.Background(), collectEvery/2+rand.N(collectEvery)) {
			ctx, cancel := context.WithTimeout(context.Background(), collectEvery)
			// What fails is tried again another time.
			_, _ = b.collect(ctx, byte(rand.N(256)))
			cancel()
		}
	})
}

// collect removes what is over: of the limits that this client used, and of all in one
// bucket, so that those of clients that have gone are removed too.
func (b *backend) collect(ctx context.Context, bucket byte) (removed int, err error) {
	nodes := b.cells.over(b.clock.now() - collectMargin.Microseconds())
	listed, err := fly(ctx, b, func() ([]string, error) {
		dir := b.limitsDir(bucket)
		names, _, err := b.conn.Children(dir)
		if errors.Is(err, zk.ErrNoNode) {
			return nil, nil
		}
		for i, name := range names {
			names[i] = dir + "/" + name
		}
		return names, err
	}, nil)
	if err != nil {
		return 0, err
	}
	rand.Shuffle(len(listed), func(i, j int) { listed[i], listed[j] = listed[j], listed[i] })
	nodes = append(nodes, listed...)
	for _, node := range nodes[:min(len(nodes), collectMost)] {
		gone, err := fly(ctx, b, func() (bool, error) { return b.collectNode(node) }, nil)
		if err != nil {
			return removed, err
		}
		if gone {
			removed++
		}
	}
	return removed, nil
}

// collectNode removes one node if it is over. What is not ours stays.
func (b *backend) collectNode(node string) (gone bool, err error) {
	data, stat, err := b.conn.Get(node)
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	r, _, err := parseRecord(data)
	if err != nil || r.until > b.clock.now()-collectMargin.Microseconds() {
		return false, nil
	}
	err = b.conn.Delete(node, stat.Version)
	if errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNotEmpty) {
		return false, nil
	}
	return err == nil, err
}

// over gives the nodes that were over at now, as far as is known, and forgets them.
func (cc *cellCache) over(now int64) []string {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	var nodes []string
	for name, c := range cc.cells {
		if c.refs > 0 {
			continue // somebody has it, or waits for it
		}
		if c.known && c.exists && c.record.until <= now {
			nodes = append(nodes, name)
		}
		if !c.known || c.record.until <= now {
			delete(cc.cells, name)
		}
	}
	slices.Sort(nodes)
	return nodes
}
