package coord

import (
	"context"
	"errors"
	"fmt"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/errs"
	"github.com/coordgo/coord/internal/quorum"
)

// Quorum makes one store for locks of three or more independent ones: what more than half of them grant is held, so
// that a minority may be down, cut off, or have forgotten everything. Close closes all.
//
//	locks, err := coord.Quorum(redisA, redisB, redisC)
//
// Members are single servers of Redis, which are no replicas of one another. Stores of files and memory work, for tests.
// Every client names the same members in the same order. Leases are a minute at most. A member that has restarted
// grants nothing for a minute, because it may have forgotten leases. Limits, fair locks and shared locks are
// ErrUnsupported; [Split] adds limits of another store. What cannot be a member is ErrInvalid: etcd and ZooKeeper are
// quorums themselves.
func Quorum(members ...driver.Backend) (driver.Backend, error) {
	b, err := quorum.New(quorum.MaxTTL, members...)
	if err != nil {
		return nil, &Error{Op: "quorum", Err: errs.OfStore(context.Background(), err, false)}
	}
	return b, nil
}

// OpenQuorum is [Quorum] of the stores that URLs name, and the prefix that these agree on. A minority that cannot be
// reached now is opened later, by calls.
func OpenQuorum(ctx context.Context, rawURLs ...string) (b driver.Backend, prefix string, err error) {
	members := make([]driver.Backend, len(rawURLs))
	defer func() {
		for _, m := range members {
			if err != nil && m != nil {
				err = closeAfter(m, err)
			}
		}
	}()
	var info driver.Info
	failed := make([]error, len(rawURLs))
	there := 0
	for i, raw := range rawURLs {
		m, p, err := OpenBackend(ctx, raw)
		switch {
		case err != nil && !errors.Is(err, ErrUnavailable):
			return nil, "", err
		case err != nil:
			failed[i] = err
			continue
		case there > 0 && p != prefix:
			members[i] = m
			return nil, "", &Error{Op: "open", Err: fmt.Errorf("%w: prefix %q of %s: want the %q of the other members", ErrInvalid, p, RedactURL(raw), prefix)}
		}
		members[i], prefix, info = m, p, m.Info()
		there++
	}
	if there <= len(rawURLs)/2 {
		return nil, "", errors.Join(failed...)
	}
	for i, why := range failed {
		if why != nil {
			members[i] = quorum.Absent(info, why, func(ctx context.Context) (driver.Backend, error) {
				m, _, err := OpenBackend(ctx, rawURLs[i])
				return m, err
			})
		}
	}
	b, err = Quorum(members...)
	return b, prefix, err
}
