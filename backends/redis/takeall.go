package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
)

// maxDemands is how many demands one call may have.
const maxDemands = 1000

// demandPart are the demands of one limit on one key, as one request: only their sum
// tells when they could be granted together.
type demandPart struct {
	key     string
	limit   driver.Limit
	n       int
	indices []int // in the demands
}

// partsOf adds up demands of the same limit on the same key.
func partsOf(demands []driver.Demand) ([]demandPart, error) {
	if len(demands) > maxDemands {
		return nil, fmt.Errorf("%w: %d demands: want at most %d", driver.ErrInvalid, len(demands), maxDemands)
	}
	var parts []demandPart
	for i, d := range demands {
		if err := limits.Check(d.Limit, driver.Ask{Min: d.N, N: d.N}); err != nil {
			return nil, err
		}
		p := slices.IndexFunc(parts, func(p demandPart) bool { return p.key == d.Key && p.limit == d.Limit })
		if p < 0 {
			p = len(parts)
			parts = append(parts, demandPart{key: d.Key, limit: d.Limit})
		}
		part := &parts[p]
		part.n += d.N
		part.indices = append(part.indices, i)
		if err := limits.Check(d.Limit, driver.Ask{Min: part.n, N: part.n}); err != nil {
			return nil, fmt.Errorf("demands on one key: %w", err)
		}
	}
	return parts, nil
}

// newTakeAll makes the command that takes parts.
func (b *backend) newTakeAll(ctx context.Context, parts []demandPart) *command {
	s := *b.limits.several
	s.keys = len(parts)
	args := make([]any, 0, 1+2*len(parts))
	var kinds strings.Builder
	for _, p := range parts {
		args = append(args, limitKey(p.key, p.limit))
		if p.limit.Algorithm == driver.TokenBucket {
			kinds.WriteByte('b')
		} else {
			kinds.WriteByte('w')
		}
	}
	args = append(args, kinds.String())
	for _, p := range parts {
		_, numbers := b.forLimit(p.limit)
		args = append(args, []byte(numbers.appendAsk(driver.Ask{Min: p.n, N: p.n}, 1)))
	}
	return s.command(ctx, args...)
}

// TakeAll implements driver.Limiter by one script. Demands on the same limit
// add up. After a denial each answer says what there is and, where the demand was in
// the way, when to come again. On a cluster the keys have to be in one slot, which
// for different keys they are not: ErrUnsupported.
func (b *backend) TakeAll(ctx context.Context, demands []driver.Demand) ([]driver.Taken, error) {
	parts, err := partsOf(demands)
	if err != nil {
		return nil, err
	}
	if len(parts) == 0 {
		return nil, b.calls.Ready(ctx)
	}
	reply, err := b.run(ctx, b.newTakeAll(ctx, parts)).packed(6 * len(parts))
	if err != nil {
		return nil, err
	}
	taken := make([]driver.Taken, len(demands))
	for i, p := range parts {
		one := reply.from(6 * i)
		for _, index := range p.indices {
			granted := grantedOf(one, p.limit)
			granted.N = min(granted.N, demands[index].N)
			taken[index] = driver.Taken{Asks: []driver.Granted{granted}, Remaining: int(one.at(4)), ResetAfter: micros(one.at(5))}
		}
	}
	return taken, nil
}
