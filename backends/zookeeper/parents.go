package zookeeper

import (
	"context"
	"slices"
	"time"
)

// A lock's queue has a parent node, which outlives the lock. The server removes parents that are empty, but
// 10,000 a minute at most: a client that locks a thousand keys a second would fill its memory. So each
// client removes those that it uses no more. What a client leaves that ends, the server removes.
const (
	// parentRests is for how long the parent of a lock that was released stays: to make it again costs
	// three requests.
	parentRests = 10 * time.Second
	// maxParents bounds what a client remembers. What it forgets is left to the server.
	maxParents = 50_000
)

// used notes that this client is about to make a node under dir, and reports whether it knows that dir is a queue of
// ours.
func (b *backend) used(dir string) (known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known = b.parents[dir]; known {
		b.parents[dir] = time.Time{}
	}
	return known
}

// foundParent notes that dir is a queue of ours. Where there are too many, it forgets any other one.
func (b *backend) foundParent(dir string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for other := range b.parents {
		if len(b.parents) < maxParents {
			break
		}
		delete(b.parents, other)
	}
	b.parents[dir] = time.Time{}
}

func (b *backend) forgetParent(dir string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.parents, dir)
}

// released notes that this client removed a node from dir, which may be empty now.
func (b *backend) released(dir string) {
	b.mu.Lock()
	if _, known := b.parents[dir]; known {
		b.parents[dir] = time.Now()
	}
	b.mu.Unlock()
	b.collector(&b.sweeping, b.sweepParents)
}

// sweepParents removes parents that have rested for long enough. A batch that fails is left to the server, what time did
// not suffice for to the next look.
func (b *backend) sweepParents(ctx context.Context, _ byte) (removed int) {
	for batch := range slices.Chunk(b.restedParents(), collectBatch) {
		b.forgetRested(batch)
		n, err := b.sweep(ctx, batch)
		if err != nil {
			break
		}
		removed += n
	}
	return removed
}

// restedParents gives those that have rested for long enough.
func (b *backend) restedParents() (rested []litter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for dir, since := range b.parents {
		if !since.IsZero() && time.Since(since) >= parentRests {
			rested = append(rested, litter{dir: dir})
		}
	}
	return rested
}

// forgetRested forgets parents, unless this client uses them again.
func (b *backend) forgetRested(batch []litter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range batch {
		if !b.parents[l.dir].IsZero() {
			delete(b.parents, l.dir)
		}
	}
}
