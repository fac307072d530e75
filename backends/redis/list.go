package redis

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
)

const (
	// listPage is how many keys the server looks at for a reply of SCAN.
	listPage = 1000
	// pageWithin is how long a master may take for that. One that hangs does not keep the others' keys back.
	pageWithin = 2 * time.Second
)

// List implements driver.Operator.
func (b *backend) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return b.names(ctx, prefix, "")
}

// List implements driver.SharedLocker. A hash stays for a while when nobody shares its key any more, so that each one is
// read.
func (l sharedLocker) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for name, err := range l.b.names(ctx, prefix, sharedSuffix) {
			var live []driver.Holder
			if err == nil {
				live, err = l.Holders(ctx, name)
			}
			if err != nil {
				yield("", err)
				return
			}
			if len(live) > 0 && !yield(name, nil) {
				return
			}
		}
	}
}

// names are those that keys with a suffix are made of. SCAN looks at each key of the database, on a cluster of each master.
// The error of a master comes after the keys of the others.
func (b *backend) names(ctx context.Context, prefix, suffix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		named := func(key string, err error) bool { return yield(untagged(key, suffix), err) }
		servers, err := b.servers(ctx)
		for _, s := range servers {
			goOn, failed := b.scan(ctx, s, pattern(prefix, suffix), named)
			if !goOn {
				return
			}
			if failed != nil && s.addr != "" {
				failed = fmt.Errorf("%s: %w", s.addr, failed)
			}
			if err == nil {
				err = failed
			}
		}
		if err != nil {
			yield("", classify(b.clusterError(err)))
		}
	}
}

// scan yields the keys of one server. goOn is false if the loop has ended.
func (b *backend) scan(ctx context.Context, s server, pattern string, yield func(string, error) bool) (goOn bool, err error) {
	for cursor := uint64(0); ; {
		var keys []string
		if keys, cursor, err = b.scanPage(ctx, s, cursor, pattern); err != nil {
			return true, err
		}
		for _, key := range keys {
			if !yield(key, nil) {
				return false, nil
			}
		}
		if cursor == 0 {
			return true, nil
		}
	}
}

func (b *backend) scanPage(ctx context.Context, s server, from uint64, pattern string) (keys []string, next uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, pageWithin)
	defer cancel()
	cmd := redis.NewScanCmd(ctx, nil, "scan", from, "match", pattern, "count", listPage)
	if _, err := b.do(ctx, s, cmd); err != nil {
		return nil, 0, err
	}
	keys, next = cmd.Val()
	return keys, next, nil
}
