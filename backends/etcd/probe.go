package etcd

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord/driver"
)

// minVersion is the oldest etcd that this store is tested with.
var minVersion = [2]int{3, 4}

// probe connects, finds out the version, refuses a server that is too old, and
// learns the shortest lease that the server grants.
func (b *backend) probe(ctx context.Context) (server string, err error) {
	if b.minTTL, err = b.shortestLease(ctx); err != nil {
		return "", err
	}
	// Whoever is logged in may ask for a lease; what is ours has to be open to us, too.
	if err := b.Ping(ctx); err != nil {
		return "", err
	}
	return b.version(ctx)
}

// usualMinTTL is the shortest lease in seconds of a server with etcd's own time-outs: one and a half of a second.
const usualMinTTL = 2

// shortestLease asks for a lease of a second, which is not used, and ends by itself. A server whose space is used up grants
// none. It is opened all the same: what is held can be looked at and given back.
func (b *backend) shortestLease(ctx context.Context) (seconds int64, err error) {
	resp, _, err := b.grantLease(ctx, 1)
	switch {
	case errors.Is(err, rpctypes.ErrNoSpace):
		return usualMinTTL, nil
	case err != nil:
		return 0, err
	case resp.TTL <= 0:
		return 0, fmt.Errorf("%w: the server grants a lease of %ds", driver.ErrUnsupported, resp.TTL)
	}
	return resp.TTL, nil
}

// version takes the first answer: a server that is down is not refused, but waited for.
func (b *backend) version(ctx context.Context) (string, error) {
	var errs []error
	for m := range b.statuses(ctx) {
		switch {
		case m.err == nil:
			return serverVersion(m.status.Version)
		case notPermitted(m.err):
			return "", nil // it may lock, but not ask for the version
		}
		errs = append(errs, m.err)
	}
	return "", readOnly(ctx, errors.Join(errs...))
}

// memberStatus is what one member answered.
type memberStatus struct {
	endpoint string
	status   *clientv3.StatusResponse
	err      error
}

// statuses asks all endpoints at once, and gives each answer as it comes.
func (b *backend) statuses(ctx context.Context) iter.Seq[memberStatus] {
	return func(yield func(memberStatus) bool) {
		var wg sync.WaitGroup
		defer wg.Wait()
		ctx, enough := context.WithCancel(ctx)
		defer enough()
		endpoints := b.client.Endpoints()
		answers := make(chan memberStatus, len(endpoints))
		for _, endpoint := range endpoints {
			wg.Go(func() {
				status, err := b.client.Status(ctx, endpoint)
				answers <- memberStatus{endpoint, status, err}
			})
		}
		for range endpoints {
			if !yield(<-answers) {
				return
			}
		}
	}
}

// serverVersion gives "etcd 3.4.23".
func serverVersion(version string) (string, error) {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	x, err1 := strconv.Atoi(major)
	y, err2 := strconv.Atoi(minor)
	if err1 == nil && err2 == nil && (x < minVersion[0] || x == minVersion[0] && y < minVersion[1]) {
		return "", fmt.Errorf("%w: etcd %s: want %d.%d or later", driver.ErrUnsupported, version, minVersion[0], minVersion[1])
	}
	return "etcd " + version, nil
}
