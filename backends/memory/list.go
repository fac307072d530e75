package memory

import (
	"context"
	"iter"
	"strings"
)

// List implements driver.Operator.
func (b *backend) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return list(ctx, b, &b.store.locks, prefix, func(sl *slot, now instant) bool { return !slotIdle(sl, now) })
}

// List implements driver.SharedLocker.
func (l sharedLocker) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	s := l.b.store
	return list(ctx, l.b, &s.shared, prefix, func(k *sharedKey, now instant) bool { return len(k.record.Live(s.clock.at(now))) > 0 })
}

// list gives the keys that begin with prefix and are taken. It looks at one shard at a time, and yields while it has none
// locked.
func list[V any](ctx context.Context, b *backend, t *table[V], prefix string, taken func(*V, instant) bool) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for i := range t.shards {
			if err := b.ready(ctx); err != nil {
				yield("", err)
				return
			}
			for _, key := range t.shards[i].keys(prefix, b.store.clock.now, taken) {
				if !yield(key, nil) {
					return
				}
			}
		}
	}
}

// keys gives the keys of sh that begin with prefix and are taken.
func (sh *shard[V]) keys(prefix string, clock func() instant, taken func(*V, instant) bool) (keys []string) {
	sh.Lock()
	defer sh.Unlock()
	now := clock()
	for key, v := range sh.cells {
		if strings.HasPrefix(key, prefix) && taken(v, now) {
			keys = append(keys, key)
		}
	}
	return keys
}
