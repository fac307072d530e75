package redis

import (
	"fmt"
	"time"

	"github.com/coordgo/coord/driver"
)

const (
	maxReplicas        = 100
	defaultWaitTimeout = time.Second
)

// WithWaitReplicas makes a lock count as granted or renewed only when n replicas have
// it too, from 1 to 100, each time after within at most (0: 1s; less than the client's
// ReadTimeout). A lock that does not reach them in time is given back at once, and the
// attempt fails; a renewal that does not is one that failed, and is repeated.
//
// A failover to one of those replicas then finds the lock. Redis does not promise to choose
// one of them, unless n is the number of all replicas: this makes the loss of a lock
// rarer, and does not rule it out. Limits do not wait.
func WithWaitReplicas(n int, within time.Duration) Option {
	return func(o *options) { o.replicas, o.replicasWithin = n, within }
}

// checkWait checks, and completes, the options of WithWaitReplicas.
func (o *options) checkWait(readTimeout time.Duration) error {
	if o.replicas == 0 && o.replicasWithin == 0 {
		return nil
	}
	if o.replicas < 1 || o.replicas > maxReplicas {
		return fmt.Errorf("%w: wait for %d replicas: want 1 to %d", driver.ErrInvalid, o.replicas, maxReplicas)
	}
	if o.replicasWithin == 0 {
		o.replicasWithin = min(defaultWaitTimeout, readTimeout/2)
	}
	if o.replicasWithin < time.Millisecond || o.replicasWithin >= readTimeout {
		return fmt.Errorf("%w: wait %v for replicas: want at least 1ms, and less than the read timeout of %v", driver.ErrInvalid, o.replicasWithin, readTimeout)
	}
	return nil
}
