package redis

import (
	"context"
	"slices"

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

// renewBatch renews those of holds that which lists.
func (b *backend) renewBatch(ctx context.Context, holds []driver.Hold, out []driver.Renewal, which []int) {
	commands, sent := make([]*command, 0, len(which)), make([]int, 0, len(which))
	for _, i := range which {
		h := holds[i]
		if out[i].Err = checkRequest(h.Request); out[i].Err == nil {
			lock, fence := lockKeys(h.Key)
			commands = append(commands, renewScript.command(ctx, lock, fence, h.ID, b.ttl(h.TTL).lease))
			sent = append(sent, i)
		}
	}
	for k, r := range b.runAll(ctx, b.options.replicas, commands) {
		out[sent[k]].Grant, out[sent[k]].Err = renewed(r)
	}
}
