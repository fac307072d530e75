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

// List implements driver.Operator.
func (b *backend) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return b.keys(ctx, b.names.locks(), prefix)
}

// List implements driver.SharedLocker.
func (s sharedLocker) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return s.store.keys(ctx, s.store.names.allShared(), prefix)
}

// keys reads the names of entries below root, in their order, and goes on behind the last key that it has seen: so a long
// queue for one key costs no more than a page.
func (b *backend) keys(ctx context.Context, root, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		from := root + url.PathEscape(prefix)
		end := clientv3.GetPrefixRangeEnd(from)
		for from != "" {
			keys, next, err := b.listFrom(ctx, root, from, end, listPage)
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
func (b *backend) listFrom(ctx context.Context, root, from, end string, n int64) (keys []string, next string, err error) {
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
		escaped, entry, whole := strings.Cut(strings.TrimPrefix(string(kv.Key), root), "/")
		if escaped == last || entry == headName { // who waits for a key holds nothing of it
			continue
		}
		key, err := url.PathUnescape(escaped)
		if err != nil || !whole {
			return keys, "", fmt.Errorf("%w: key %.200q in etcd: want one of a lock", driver.ErrCorrupt, kv.Key)
		}
		keys, last = append(keys, key), escaped
	}
	if found.More {
		next = string(found.Kvs[len(found.Kvs)-1].Key) + "\x00"
		if last != "" {
			next = max(next, clientv3.GetPrefixRangeEnd(root+last+"/"))
		}
	}
	return keys, next, nil
}
