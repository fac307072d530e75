package guide

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/coordgo/coord"
)

// render lets twenty calls to the renderer run at once, over all processes. A large job counts as four.
func render(ctx context.Context, client *coord.Client, large bool, call func(context.Context) error) error {
	weight := 1
	if large {
		weight = 4
	}
	return coord.Do(ctx, client.Semaphore(20), "renderer", call, coord.Weight(weight), coord.WaitAtMost(time.Minute))
}

// search reads the index beside others, while nobody writes it.
func search(ctx context.Context, client *coord.Client, query func(context.Context) error) error {
	return coord.Do(ctx, client.ReadWrite().Read(), "index", query)
}

// rebuild writes the index alone, and then checks it as a reader: nobody else writes it in between.
func rebuild(ctx context.Context, client *coord.Client, write, check func(context.Context) error) (err error) {
	index := client.ReadWrite()
	ctx = coord.WithOwner(ctx)
	writer, err := index.Write().Lock(ctx, "index")
	if err != nil {
		return err
	}
	err = write(ctx)
	reader, failed := index.Read().Lock(ctx, "index") // the same owner: it enters again
	err = errors.Join(err, failed, writer.Unlock(ctx))
	if failed != nil {
		return err
	}
	defer func() { err = errors.Join(err, reader.Unlock(ctx)) }()
	if err != nil {
		return err
	}
	return check(ctx)
}

// divideWork tells assign which of n shards are this worker's, and again whenever a worker comes or goes, until ctx
// ends. For a moment two workers may have another view of the group: lock each shard while you work on it.
func divideWork(ctx context.Context, client *coord.Client, addr string, n int, assign func(shards []int)) error {
	group := client.ReadWrite().Read()
	return coord.Do(ctx, group, "workers", func(ctx context.Context) error {
		me, _ := group.Held(ctx, "workers")
		for members, err := range group.Watch(ctx, "workers") {
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case err == nil:
				assign(shardsOf(me.Slot(), members, n))
			}
		}
		return nil
	}, coord.HolderName(addr))
}

// shardsOf gives each member every so manieth shard, in the order of their slots.
func shardsOf(slot int, members []coord.Holder, n int) (shards []int) {
	rank := 0
	for _, m := range members {
		if m.Slot < slot {
			rank++
		}
	}
	for shard := rank; shard < n; shard += max(len(members), 1) {
		shards = append(shards, shard)
	}
	return slices.Clip(shards)
}
