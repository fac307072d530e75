package etcd

import (
	"errors"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// maxOps is how many operations share a request. Each may have a few of its own, and etcd's own bound, its flag
// --max-txn-ops, is 128 for both together.
const maxOps = 100

// opsLimit is how many operations this server takes in a request, as far as it is known: its bound cannot be asked for.
// The zero value is maxOps.
type opsLimit struct{ fewer atomic.Int64 }

func (o *opsLimit) most() int { return maxOps - int(o.fewer.Load()) }

// tooMany reports whether a request of n operations was refused because they are too many, and is to be made again with
// fewer. From then on there are half as many.
func (o *opsLimit) tooMany(err error, n int) bool {
	if !errors.Is(err, rpctypes.ErrTooManyOps) || n <= 1 {
		return false
	}
	for fewer := o.fewer.Load(); maxOps-int(fewer) >= n; fewer = o.fewer.Load() {
		o.fewer.CompareAndSwap(fewer, int64(maxOps-n/2))
	}
	return true
}
