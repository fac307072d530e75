package redis

import (
	"context"
	"slices"

	"github.com/coordgo/coord/driver"
)

// maxBatch is how many renewals share a round trip.
const maxBatch = 500

// RenewAll implements driver.Locker by pipelines. On a cluster each master has its own,
// all at once: so one that does not answer costs no other its renewals.
func (b *backend) RenewAll(ctx context.Context, holds []driver.Hold) []driver.Renewal {
	return b.renewAll(ctx, holds, func(h driver.Hold) (*command, error) {
		lock, fence := lockKeys(h.Key)
		return renewScript.command(ctx, lock, fence, h.ID, b.ttl(h.TTL).lease), checkRequest(h.Request)
	}, renewed)
}

// renewAll runs for each hold the command that one makes, and reads the replies with read.
func (b *backend) renewAll(ctx context.Context, holds []driver.Hold, one func(driver.Hold) (*command, error), read func(reply) (driver.Grant, error)) []driver.Renewal {
	out := make([]driver.Renewal, len(holds))
	b.eachPart(len(holds), func(i int) string { return lockKey(holds[i].Key) }, func(which []int) {
		for batch := range slices.Chunk(which, maxBatch) {
			commands, sent := make([]*command, 0, len(batch)), make([]int, 0, len(batch))
			for _, i := range batch {
				c, err := one(holds[i])
				if out[i].Err = err; err == nil {
					commands, sent = append(commands, c), append(sent, i)
				}
			}
			for k, r := range b.runAll(ctx, b.options.replicas, commands) {
				out[sent[k]].Grant, out[sent[k]].Err = read(r)
			}
		}
	})
	return out
}
