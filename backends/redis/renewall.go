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
	return b.renewAll(ctx, holds, lockRenewer{b})
}

// renewer renews holds of one kind.
type renewer interface {
	check(r driver.Request) error
	command(ctx context.Context, key string, r driver.Request) *command
	renewed(r reply) (driver.Grant, error)
}

type lockRenewer struct{ b *backend }

func (l lockRenewer) check(r driver.Request) error { return checkRequest(r) }

func (l lockRenewer) command(ctx context.Context, key string, r driver.Request) *command {
	lock, fence := lockKeys(key)
	return renewScript.command(ctx, lock, fence, r.ID, l.b.ttl(r.TTL).lease)
}

func (l lockRenewer) renewed(r reply) (driver.Grant, error) { return renewed(r) }

func (b *backend) renewAll(ctx context.Context, holds []driver.Hold, by renewer) []driver.Renewal {
	out := make([]driver.Renewal, len(holds))
	b.eachPart(len(holds), func(i int) string { return lockKey(holds[i].Key) }, func(which []int) {
		for batch := range slices.Chunk(which, maxBatch) {
			b.renewBatch(ctx, holds, out, batch, by)
		}
	})
	return out
}

// renewBatch renews those of holds that which lists.
func (b *backend) renewBatch(ctx context.Context, holds []driver.Hold, out []driver.Renewal, which []int, by renewer) {
	commands, sent := make([]*command, 0, len(which)), make([]int, 0, len(which))
	for _, i := range which {
		h := holds[i]
		if out[i].Err = by.check(h.Request); out[i].Err == nil {
			commands = append(commands, by.command(ctx, h.Key, h.Request))
			sent = append(sent, i)
		}
	}
	for k, r := range b.runAll(ctx, b.options.replicas, commands) {
		out[sent[k]].Grant, out[sent[k]].Err = by.renewed(r)
	}
}
