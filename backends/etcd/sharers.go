package etcd

import (
	"context"

	"github.com/coordgo/coord/driver"
)

// maxHolders is the most holders of a key. Each take reads all of them.
const maxHolders = 256

// sharers are those who shared a key at a revision of the store, the head of its queue among them.
type sharers struct {
	revision int64
	list     []record
}

// sharersOf reads them.
func (b *backend) sharersOf(ctx context.Context, key string) (sharers, error) {
	prefix := b.names.shared(key)
	found, err := b.get(ctx, allUnder(prefix))
	if err != nil {
		return sharers{}, err
	}
	s := sharers{found.Header.Revision, make([]record, len(found.Kvs))}
	for i, kv := range found.Kvs {
		if s.list[i], err = readShared(prefix, kv); err != nil {
			return sharers{}, err
		}
	}
	return s, nil
}

// verdict is what the sharers mean for a request.
type verdict struct {
	own   *record // the hold that its id has
	head  *record // of the queue
	fits  bool
	bound int64 // on permits
	slot  int   // the lowest that is free
}

// judge says whether a hold of id fits beside the sharers.
func (s *sharers) judge(id string, share driver.Share) verdict {
	v := verdict{fits: true, bound: share.Of}
	sum, taken := share.Weight, make([]bool, len(s.list)+1)
	for i := range s.list {
		rec := &s.list[i]
		if rec.head {
			v.head, v.fits = rec, v.fits && rec.id == id
			continue
		}
		if rec.id == id && !rec.released {
			v.own = rec
		}
		if rec.slot < len(taken) {
			taken[rec.slot] = true
		}
		v.fits = v.fits && share.Fits(rec.share)
		if rec.share.Mode == driver.Permits {
			v.bound = min(v.bound, rec.share.Of)
			sum += rec.share.Weight
		}
	}
	for taken[v.slot] {
		v.slot++
	}
	v.fits = v.fits && (share.Mode != driver.Permits || sum <= v.bound)
	return v
}
