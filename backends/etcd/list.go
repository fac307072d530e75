package etcd

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord/driver"
)

// listPage is how many entries a request of List reads.
const listPage = 500

// List implements driver.Operator. It reads the names of entries, in their order, and goes on behind the last key that
// it has seen: so a long queue for one key costs no more than a page.
func (b *backend) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		from := b.names.locks() + url.PathEscape(prefix)
		end := clientv3.GetPrefixRangeEnd(from)
		for from != "" {
			keys, next, err := b.listFrom(ctx, from, end, listPage)
			for _, key := range keys {
				if !yield(key, nil) {
					return
				}
			}
			if err != nil {
				yield("", err)
				return
			}
			from = next
		}
	}
}

// listFrom reads the page that begins at a name. next is where the one after it begins, "" if there is none.
func (b *backend) listFrom(ctx context.Context, from, end string, n int64) (keys []string, next string, err error) {
	call, done, err := b.begin(ctx)
	if err != nil {
		return nil, "", err
	}
	defer done()
	found, err := b.get(call, &pb.RangeRequest{Key: []byte(from), RangeEnd: []byte(end), KeysOnly: true, Limit: n})
	if err != nil {
		return nil, "", err
	}
	last := ""
	for _, kv := range found.Kvs {
		escaped, _, whole := strings.Cut(strings.TrimPrefix(string(kv.Key), b.names.locks()), "/")
		if escaped == last {
			continue
		}
		key, err := url.PathUnescape(escaped)
		if err != nil || !whole {
			return keys, "", fmt.Errorf("%w: key %.200q in etcd: want one of a lock", driver.ErrCorrupt, kv.Key)
		}
		keys, last = append(keys, key), escaped
	}
	if found.More {
		next = clientv3.GetPrefixRangeEnd(b.names.locks() + last + "/")
	}
	return keys, next, nil
}
