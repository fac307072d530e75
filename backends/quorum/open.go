// Package quorum makes one store for locks of several independent ones: what more than half of them grant is held.
// See [New].
package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/quorum"
)

// New makes one store for locks of three or more independent ones: what more than half of them grant is held, so
// that a minority may be down, cut off, or have forgotten everything. Close closes all.
//
//	locks, err := quorum.New(redisA, redisB, redisC)
//
// Members are single servers of Redis, which are no replicas of one another. Stores of files and memory work, for tests.
// Every client names the same members, in any order. Leases are a minute at most. A member that has restarted
// grants nothing for a minute, because it may have forgotten leases. Limits, fair locks and shared locks are
// ErrUnsupported; [driver.Split] adds limits of another store. What cannot be a member is ErrInvalid: etcd and ZooKeeper are
// quorums themselves.
func New(members ...driver.Backend) (driver.Backend, error) {
	b, err := quorum.New(quorum.MaxTTL, members...)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Open is [New] of the stores that URLs name, and the prefix that these agree on. A minority that does not
// answer now is opened later, by calls.
func Open(ctx context.Context, rawURLs ...string) (b driver.Backend, prefix string, err error) {
	if len(rawURLs) < 3 {
		return nil, "", fmt.Errorf("%w: a quorum of %d URLs: want 3 or more", driver.ErrInvalid, len(rawURLs))
	}
	if again := namedTwice(rawURLs); again != "" {
		return nil, "", fmt.Errorf("%s: %w: a member of the quorum again", driver.RedactURL(again), driver.ErrInvalid)
	}
	all := openMembers(ctx, rawURLs)
	members := make([]driver.Backend, 0, len(all))
	defer func() {
		for _, m := range members {
			if err != nil {
				err = errors.Join(err, m.Close())
			}
		}
	}()
	var first *opened
	var failed []error
	for _, o := range all {
		switch {
		case o.err != nil && !errors.Is(o.err, driver.ErrUnavailable):
			err = errors.Join(err, o.err)
		case o.err != nil:
			failed = append(failed, o.err)
		default:
			if first == nil {
				first = o
			}
			members = append(members, o.b)
			if o.prefix != first.prefix {
				err = errors.Join(err, fmt.Errorf("%s: %w: prefix %q: want the %q of the other members", driver.RedactURL(o.url), driver.ErrInvalid, o.prefix, first.prefix))
			}
		}
	}
	if err == nil && len(members) <= len(all)/2 {
		err = errors.Join(failed...)
	}
	if err != nil {
		return nil, "", err
	}
	for i, o := range all {
		if o.err != nil {
			members = slices.Insert(members, i, o.later(first.b.Info()))
		}
	}
	b, err = New(members...)
	return b, first.prefix, err
}

// namedTwice is a URL of the address that one before it has, "" if there is none. One of no address is a store of its own.
func namedTwice(rawURLs []string) string {
	seen := make(map[string]bool)
	for _, raw := range rawURLs {
		u, err := driver.ParseURL(raw)
		if err != nil || u.Host+u.Path == "" {
			continue // opening tells a mistake
		}
		address := u.Host + u.Path
		if seen[address] {
			return raw
		}
		seen[address] = true
	}
	return ""
}

// opened is a member, or the error that it does not open.
type opened struct {
	url, prefix string
	b           driver.Backend
	err         error
}

// later is the member, which calls open.
func (o *opened) later(like driver.Info) driver.Backend {
	return quorum.Absent(like, o.err, func(ctx context.Context) (driver.Backend, error) {
		again := &opened{url: o.url}
		again.open(ctx)
		return again.b, again.err
	})
}

func (o *opened) open(ctx context.Context) {
	if o.b, o.prefix, o.err = driver.Open(ctx, o.url); o.err != nil {
		o.err = fmt.Errorf("open %s: %w", driver.RedactURL(o.url), o.err)
	}
}

// openMembers opens all at once. Once most are open, the others have as much time again, and a moment.
func openMembers(ctx context.Context, rawURLs []string) []*opened {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	start, results, all := time.Now(), make(chan *opened, len(rawURLs)), make([]*opened, len(rawURLs))
	for i, raw := range rawURLs {
		all[i] = &opened{url: raw}
		go func() {
			all[i].open(ctx)
			results <- all[i]
		}()
	}
	there := 0
	for range rawURLs {
		if o := <-results; o.err == nil {
			there++
		}
		if there == len(rawURLs)/2+1 {
			late := time.AfterFunc(time.Since(start)+200*time.Millisecond, func() { cancel(errLate) })
			defer late.Stop()
		}
	}
	return all
}

// errLate is why a member was not waited for.
var errLate = fmt.Errorf("%w: no answer yet, and a majority is there", driver.ErrUnavailable)
