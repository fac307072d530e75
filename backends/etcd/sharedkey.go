package etcd

import (
	"context"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord/driver"
)

// sharedKey is what this client knows of a key that several hold. backend.mu guards it, but for turn.
type sharedKey struct {
	turn    ctxMutex // held while permits are requested, or a write: these only defeat each other
	calls   int      // calls under way
	entries map[*entry]struct{}
	asked   map[int]struct{} // slots that readers' requests under way ask for
	others  bool             // the entries of other clients were seen last
	// known is a revision of the store at which nobody but this client had entries; 0: there is none.
	known int64
	// last is the slot of the last reader that was granted, steady says that the one before it had the same.
	last   int
	steady bool
}

// sharedPart is what an entry has that is of a shared hold, or a head.
type sharedPart struct {
	of    *sharedKey
	share driver.Share // without Head
	slot  int
}

// maxContended is how many keys a client remembers that it does not use, because other clients do.
const maxContended = 1024

// sharedKey gives what is known of key. backend.mu is held.
func (b *backend) sharedKey(key string) *sharedKey {
	k := b.shared[key]
	if k == nil {
		k = &sharedKey{entries: make(map[*entry]struct{}), asked: make(map[int]struct{}), last: -1}
		b.shared[key] = k
	}
	return k
}

// useShared gives what is known of key for a call, which ends with done.
func (b *backend) useShared(key string) (k *sharedKey, done func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k = b.sharedKey(key)
	k.calls++
	return k, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		k.calls--
		b.forgetIdle(key, k)
	}
}

// forgetIdle forgets a key that is not in use any more. backend.mu is held.
func (b *backend) forgetIdle(key string, k *sharedKey) {
	if k.calls == 0 && len(k.entries) == 0 && (!k.others || len(b.shared) > maxContended) {
		delete(b.shared, key)
	}
}

// sharers are those who share a key, the head of its queue among them, as they were at a revision of the store. Later
// some may be gone. Those who came later are found by that revision.
type sharers struct {
	revision int64
	fresh    bool // read by this call: so that they are a reason to refuse
	others   bool // some are not this client's
	list     []record
	guess    bool // nothing is known but that a reader of slot may fit
	slot     int
}

// ownSharers gives the sharers without a question to the store, if all are this client's.
func (b *backend) ownSharers(k *sharedKey, p place, mode driver.Mode) (m sharers, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k.others {
		return m, false
	}
	for e := range k.entries {
		rec := record{kind: e.kind, name: e.name, id: e.id, create: e.create, share: e.shared.share, slot: e.shared.slot}
		switch {
		case e.state == unsure && e.id != p.id: // if it comes, it comes later
			continue
		case e.state != held && e.state != waiting, e.id == p.id:
			return m, false
		case mode == driver.Read && (e.kind == ofHead || strings.HasSuffix(e.name, writerName)):
			return m, false
		}
		m.list = append(m.list, rec)
	}
	if len(m.list) == 0 || mode == driver.Read { // there must be nobody, or no writer
		return m, true
	}
	m.revision = k.known
	return m, k.known != 0
}

// guess is for a reader beside holds of other clients: it tries the slot that it was given the last two times, without reading
// who is there, which takes the longer the more they are. The answer says whether a lower one was free.
func (b *backend) guess(k *sharedKey, p place, share driver.Share) (m sharers, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, asked := k.asked[k.last]
	known := b.entries[p] != nil || b.entries[place{p.key, p.id, ofHead}] != nil
	if share != (driver.Share{Mode: driver.Read}) || !k.steady || asked || known {
		return m, false
	}
	return sharers{others: true, guess: true, slot: k.last}, true
}

// listSharers asks the store.
func (b *backend) listSharers(ctx context.Context, k *sharedKey, key string) (sharers, error) {
	found, err := b.get(ctx, clientv3.OpGet(b.names.shared(key), clientv3.WithPrefix()))
	if err != nil {
		return sharers{}, err
	}
	return b.seen(k, key, found.Header.Revision, found.Kvs)
}

// seen takes in what the store had at a revision.
func (b *backend) seen(k *sharedKey, key string, revision int64, kvs []*mvccpb.KeyValue) (sharers, error) {
	m := sharers{revision: revision, fresh: true, list: make([]record, len(kvs))}
	b.mu.Lock()
	defer b.mu.Unlock()
	headed := false
	for i, kv := range kvs {
		rec, err := readShared(b.names.shared(key), kv)
		if err != nil {
			k.others = true
			return sharers{}, err
		}
		m.list[i] = rec
		own := b.entries[place{key, rec.id, rec.kind}]
		m.others = m.others || own == nil || own.create != rec.create
		headed = headed || rec.kind == ofHead
	}
	if k.others = m.others; !m.others {
		k.known = max(k.known, revision)
	}
	for e := range k.entries {
		if e.kind == ofHead && e.state == waiting && e.create <= revision && !headed {
			b.drop(e)
		}
	}
	return m, nil
}

// hold finds the hold of id, and head that of the queue.
func (m *sharers) hold(id string) (record, bool) {
	for _, rec := range m.list {
		if rec.kind == ofShare && rec.id == id && !rec.released {
			return rec, true
		}
	}
	return record{}, false
}

func (m *sharers) head() (record, bool) {
	for _, rec := range m.list {
		if rec.kind == ofHead {
			return rec, true
		}
	}
	return record{}, false
}

// admits reports whether a hold for r fits beside the sharers, and the bound on permits that counts.
func (m *sharers) admits(r driver.Request) (bound int64, fits bool) {
	bound, sum := r.Share.Of, r.Share.Weight
	for _, rec := range m.list {
		switch {
		case rec.kind == ofHead:
			if rec.id != r.ID {
				return bound, false
			}
		case !r.Share.Fits(rec.share):
			return bound, false
		case rec.share.Mode == driver.Permits:
			bound = min(bound, rec.share.Of)
			sum += rec.share.Weight
		}
	}
	return bound, r.Share.Mode != driver.Permits || sum <= bound
}

// freeSlot is the lowest number that no member has, and no request under way.
func (m *sharers) freeSlot(asked map[int]struct{}) int {
	taken := make(map[int]struct{}, len(m.list))
	for _, rec := range m.list {
		if rec.kind == ofShare {
			taken[rec.slot] = struct{}{}
		}
	}
	for slot := 0; ; slot++ {
		_, inUse := taken[slot]
		_, soon := asked[slot]
		if !inUse && !soon {
			return slot
		}
	}
}
