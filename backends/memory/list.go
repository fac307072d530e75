package memory

import (
	"context"
	"iter"
	"strings"
)

// List implements driver.Operator. It looks at one shard at a time, and yields while it has none locked.
func (b *backend) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		s := b.store
		for i := range s.locks.shards {
			if err := b.ready(ctx); err != nil {
				yield("", err)
				return
			}
			for _, key := range s.taken(&s.locks.shards[i], prefix) {
				if !yield(key, nil) {
					return
				}
			}
		}
	}
}

// taken gives the keys of sh that begin with prefix and are not free.
func (s *Store) taken(sh *shard[slot], prefix string) (keys []string) {
	sh.Lock()
	defer sh.Unlock()
	now := s.clock.now()
	for key, sl := range sh.cells {
		if strings.HasPrefix(key, prefix) && !slotIdle(sl, now) {
			keys = append(keys, key)
		}
	}
	return keys
}
