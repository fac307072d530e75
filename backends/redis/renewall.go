package redis

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
)

// maxBatch is how many renewals share a round trip.
const maxBatch = 500

// RenewAll implements driver.BatchRenewer by pipelines. On a cluster each master has its own,
// all at once: so one that does not answer costs no other its renewals.
func (b *backend) RenewAll(ctx context.Context, holds []driver.Hold) []driver.Renewal {
	out := make([]driver.Renewal, len(holds))
	b.eachPart(len(holds), func(i int) string { return lockKey(holds[i].Key) }, func(which []int) {
		for batch := range slices.Chunk(which, maxBatch) {
			b.renewBatch(ctx, holds, out, batch)
		}
	})
	return out
}

// pipeline sends many commands as one: what Process is given is ignored.
type pipeline struct{ redis.Pipeliner }

func (p pipeline) Process(ctx context.Context, _ redis.Cmder) error {
	// The error of the first failed command; each has its own.
	_, err := p.Exec(ctx)
	return err
}

// renewBatch renews those of holds that which lists.
func (b *backend) renewBatch(ctx context.Context, holds []driver.Hold, out []driver.Renewal, which []int) {
	all := make([]int, 0, len(which))
	for _, i := range which {
		if out[i].Err = checkRequest(holds[i].Request); out[i].Err == nil {
			all = append(all, i)
		}
	}
	unknown := b.renewPipelined(ctx, holds, out, all, false)
	if len(unknown) > 0 {
		// The server forgot the script, which it says of each call.
		b.renewPipelined(ctx, holds, out, unknown, true)
	}
}

// renewPipelined renews those of holds that which lists in one round trip to each
// server, and gives those for which the server did not know the script.
func (b *backend) renewPipelined(ctx context.Context, holds []driver.Hold, out []driver.Renewal, which []int, source bool) (unknown []int) {
	if len(which) == 0 {
		return nil
	}
	w := newWaiting(b, len(which))
	for _, i := range which {
		lock, fence := lockKeys(holds[i].Key)
		args := renewScript.args(lock, fence, holds[i].ID, b.ttl(holds[i].TTL).lease)
		if source {
			args = renewScript.withSource(args)
		}
		w.add(lock, newCall(ctx, args))
	}
	if landed, err := b.fly(ctx, b.batch(ctx, w), nil); !landed {
		b.noticeTopology(err)
		for _, i := range which {
			out[i].Err = classify(err)
		}
		return nil
	}
	for k, i := range which {
		switch err := w.calls[k].Err(); {
		case noScript(err) && !source:
			unknown = append(unknown, i)
		case err != nil:
			b.noticeTopology(err)
			out[i].Err = classify(b.clusterError(err))
		default:
			out[i].Grant, out[i].Err = w.renewal(k)
		}
	}
	return unknown
}

// batch is the calls of w as one command. Without replicas to wait for, the client
// itself finds the servers, and follows redirections.
func (b *backend) batch(ctx context.Context, w *waiting) processor {
	if b.options.replicas > 0 {
		return w
	}
	pipe := b.client.Pipeline()
	for _, c := range w.calls {
		_ = pipe.Process(ctx, c) // is put on a list
	}
	return pipeline{pipe}
}

// renewal is what call k, which has no error, has come to.
func (w *waiting) renewal(k int) (driver.Grant, error) {
	reply, err := checkReply(w.calls[k].Val(), 3)
	if err != nil {
		return driver.Grant{}, err
	}
	var short error
	if w.b.options.replicas > 0 && reply[0] != 0 {
		short = w.shortfall(k)
	}
	return renewed(reply, short)
}
