package zookeeper

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/driver"
)

const (
	// collectEvery is how often a client looks for limits and guards that say no more than their absence, and for
	// parents that it uses no more. A look takes no longer than that.
	collectEvery = 20 * time.Second
	// collectSoon is the pause after a look that removed collectMuch: then there are more, and
	// they are removed as fast as one request after the other does it.
	collectSoon = 100 * time.Millisecond
	collectMuch = 20
	// collectMargin is how long after that they are removed: longer than clocks of
	// clients can be apart.
	collectMargin = 5 * time.Second
	// collectOwn and collectMost bound one look: at limits that this client used, and
	// at those in one bucket.
	collectOwn  = 1000
	collectMost = 200
	// collectBatch is how many of them one transaction removes: their paths fit in a
	// request of a megabyte.
	collectBatch = 100
)

// collects starts the collector of limits and guards, once.
func (b *backend) collects() {
	b.collector(&b.collecting, func(ctx context.Context, bucket byte) (removed int) {
		if now, err := b.leaderTime(ctx); err == nil {
			removed, _ = b.collect(ctx, now.UnixMicro(), bucket)
		}
		return removed
	})
}

// collector calls look now and then, with each bucket in turn, unless it has started. What fails is tried again another
// time.
func (b *backend) collector(started *atomic.Bool, look func(ctx context.Context, bucket byte) (removed int)) {
	if started.Swap(true) {
		return
	}
	b.calls.Go(func() {
		r := round{bucket: byte(rand.N(256))}
		for next := r.next(0); b.calls.Pause(context.Background(), next) == nil; {
			ctx, cancel := context.WithTimeout(context.Background(), collectEvery)
			next = r.next(look(ctx, r.bucket))
			cancel()
		}
	})
}

// round goes from bucket to bucket, in order: as limits are spread evenly, the next bucket has about as
// many that are over as this one. Were it chosen at random, one that was cleaned just now would make the client
// pause, and 80,000 limits would take hours.
type round struct{ bucket byte }

// next goes on to the next bucket, and gives the time until the look at it.
func (r *round) next(removed int) time.Duration {
	r.bucket++
	if removed >= collectMuch {
		return collectSoon
	}
	return collectEvery/2 + rand.N(collectEvery)
}

// litter is a limit that is over, as long as its incarnation has that version, or a guard that is not used, or a
// parent, which has no incarnation.
type litter struct {
	dir, node string
	version   int32
}

// ops are the parts of a transaction that remove it.
func (l litter) ops() []any {
	dir := &zk.DeleteRequest{Path: l.dir, Version: -1}
	if l.node == "" {
		return []any{dir}
	}
	return []any{&zk.DeleteRequest{Path: l.node, Version: l.version}, dir}
}

// collect removes what is over at now: of the limits that this client used, and of all in one
// bucket, so that those of clients that have gone are removed too.
func (b *backend) collect(ctx context.Context, now int64, bucket byte) (removed int, err error) {
	until := now - collectMargin.Microseconds()
	removed, err = b.sweep(ctx, b.over(until, collectOwn))
	if err != nil {
		return removed, err
	}
	found, err := b.scan(ctx, b.limitsDir(bucket), until, b.isOver)
	if err != nil {
		return removed, err
	}
	cold, err := b.scan(ctx, b.guardsDir(bucket), until, b.isCold)
	if err != nil {
		return removed, err
	}
	n, err := b.sweep(ctx, append(found, cold...))
	return removed + n, err
}

// scan gives those of a bucket that are over, of collectMost at most.
func (b *backend) scan(
	ctx context.Context, bucket string, until int64,
	isOver func(ctx context.Context, dir string, until int64) (litter, bool, error),
) (found []litter, err error) {
	names, err := call(ctx, b, func() ([]string, error) { return b.list(bucket, false) }, nil)
	if err != nil {
		return nil, err
	}
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names[:min(len(names), collectMost)] {
		l, over, err := isOver(ctx, bucket+"/"+name, until)
		if err != nil {
			return nil, err
		}
		if over {
			found = append(found, l)
		}
	}
	return found, nil
}

// isOver looks whether one limit says nothing more after until. What is not ours, or not ours to read, is not over.
func (b *backend) isOver(ctx context.Context, dir string, until int64) (l litter, over bool, err error) {
	a, err := call(ctx, b, func() (answer, error) { return b.look(dir, "") }, nil)
	switch {
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth), errors.Is(err, driver.ErrCorrupt):
		return l, false, nil
	case err != nil:
		return l, false, err
	}
	end, _, err := parseRecord(a.data)
	if err != nil || end > until {
		return l, false, nil
	}
	return litter{dir, a.node, a.stat.Version}, true, nil
}

// sweep removes what nobody has used meanwhile, many at a time.
func (b *backend) sweep(ctx context.Context, all []litter) (removed int, err error) {
	for batch := range slices.Chunk(all, collectBatch) {
		n, err := call(ctx, b, func() (int, error) { return b.removeUnused(batch) }, nil)
		if err != nil {
			return removed, err
		}
		removed += n
	}
	return removed, nil
}

// removeUnused removes a batch in one transaction. That fails as a whole at one that is in use or has gone: the others
// are tried again without it.
func (b *backend) removeUnused(batch []litter) (removed int, err error) {
	for len(batch) > 0 {
		var ops []any
		var places []int // in batch, of each of ops
		for i, l := range batch {
			for _, op := range l.ops() {
				ops, places = append(ops, op), append(places, i)
			}
		}
		answers, err := b.conn.Multi(ops...)
		if err == nil {
			return len(batch), nil
		}
		failed := firstFailure(answers, err)
		if failed < 0 {
			return 0, err
		}
		i := places[failed]
		batch = slices.Concat(batch[:i], batch[i+1:])
	}
	return 0, nil
}

// over gives limits that were over at now, as far as is known, and forgets them: most at the
// most, the others another time.
func (b *backend) over(now int64, most int) (found []litter) {
	b.states.Forget(func(c *cell) bool {
		v := &c.Version
		switch {
		case !c.Known || v.path == "":
			return true
		case v.until <= now && len(found) < most:
			found = append(found, litter{c.Name, v.path, v.version})
			return true
		}
		return false
	})
	return found
}
