package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord/driver"
)

// sharing is a request for a hold that shares its key, on its way.
type sharing struct {
	b *backend
	k *sharedKey
	place
	driver.Request
	l *lease
}

// try makes one attempt. What this client knows may be enough to grant, for the transaction proves that nobody has come
// since. It is never enough to refuse, for some may have gone.
func (s *sharing) try(ctx context.Context) (driver.Grant, error) {
	m, ok := s.b.ownSharers(s.k, s.place, s.Share.Mode)
	if !ok {
		m, ok = s.b.guess(s.k, s.place, s.Share)
	}
	var err error
	for defeats := 0; ; defeats++ {
		if !ok {
			if m, err = s.b.listSharers(ctx, s.k, s.key); err != nil {
				return driver.Grant{}, err
			}
		}
		if rec, there := m.hold(s.ID); there {
			return s.again(ctx, rec)
		}
		bound, fits := m.admits(s.Request)
		if !fits && m.fresh {
			return driver.Grant{}, s.refused(ctx, &m)
		}
		if ok = fits; !fits {
			continue
		}
		g, next, err := s.grant(ctx, &m, bound)
		if errors.Is(err, errSlot) {
			ok = false
			continue
		}
		if err != nil || next == nil {
			return g, err
		}
		if m.fresh {
			if err := pauseAfter(ctx, defeats); err != nil {
				return driver.Grant{}, err
			}
		}
		m = *next
	}
}

// pauseAfter lets others go first, at random: requests that defeat each other would go on to do so. Its error changed nothing.
func pauseAfter(ctx context.Context, defeats int) error {
	const most = 20 * time.Millisecond
	pause := rand.N(min(time.Millisecond<<min(defeats, 5), most))
	if err := sleep(ctx, pause); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrNotSent, err)
	}
	return nil
}

// again gives the hold that the id has: the reply to an earlier attempt was lost, or it was made by another client.
func (s *sharing) again(ctx context.Context, rec record) (driver.Grant, error) {
	r := s.Request
	r.Share = driver.Share{} // an attempt makes nothing smaller
	return s.b.adopt(ctx, s.place, r, rec)
}

// grant makes an entry, if nobody has come since m was seen. next is what the store has if someone has.
func (s *sharing) grant(ctx context.Context, m *sharers, bound int64) (g driver.Grant, next *sharers, err error) {
	e, free := s.entryFor(m)
	defer free()
	if e.shared.slot >= driver.MaxHolders {
		return g, nil, fmt.Errorf("%w: more than %d holders of one key", driver.ErrUnsupported, driver.MaxHolders)
	}
	create, a, err := s.create(ctx, e, s.grantStep(m, e))
	if err != nil {
		return g, nil, err
	}
	if create == 0 {
		found := kvsOf((*clientv3.TxnResponse)(a.txn), 0)
		came, err := s.b.seen(s.k, s.key, a.revision, found)
		return g, &came, err
	}
	e.create = create
	if m.guess && kvCount(a, 0) < int64(m.slot) {
		return g, nil, s.undo(ctx, e)
	}
	g, err = s.b.created(e, s.l)
	g.Of = bound
	s.took(m, e)
	return g, nil, err
}

// errSlot: a slot was guessed, and a lower one is free.
var errSlot = errors.New("etcd: a lower slot is free")

// kvCount is how many the i-th operation of a step, a count, has found.
func kvCount(a answer, i int) int64 { return a.txn.Responses[i].GetResponseRange().GetCount() }

// undo removes what was made for a slot that is not the lowest. Nobody was told of it.
func (s *sharing) undo(ctx context.Context, e *entry) error {
	b := s.b
	b.mu.Lock()
	s.k.last, s.k.steady = -1, false
	b.add(e, s.l)
	b.remove(e)
	b.mu.Unlock()
	if err := b.reap(ctx, []*entry{e}); err != nil {
		return err
	}
	return errSlot
}

// entryFor gives the entry that is to be made. Readers of this client ask for different slots at a time.
func (s *sharing) entryFor(m *sharers) (e *entry, free func()) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	share := s.Share
	share.Head = false
	slot := 0
	if share.Mode != driver.Write {
		if slot = m.slot; !m.guess {
			slot = m.freeSlot(s.k.asked)
		}
		s.k.asked[slot] = struct{}{}
	}
	e = &entry{place: s.place, shared: &sharedPart{of: s.k, share: share, slot: slot}}
	e.name = s.b.names.shared(s.key) + shareName(share.Mode, slot)
	return e, func() {
		s.b.mu.Lock()
		defer s.b.mu.Unlock()
		if share.Mode != driver.Write {
			delete(s.k.asked, slot)
		}
	}
}

// grantStep is the transaction of a grant: it makes e, and removes the head if that is the same id's. A reader needs that no
// writer and no head has come, and that its slot is free. Others need that nobody has come.
func (s *sharing) grantStep(m *sharers, e *entry) step {
	prefix, name := s.b.names.shared(s.key), []byte(e.name)
	txn := &pb.TxnRequest{Failure: []*pb.RequestOp{allUnder([]byte(prefix))}}
	if m.guess {
		txn.Success = append(txn.Success, countBetween([]byte(prefix+readersDir), name))
	}
	if s.Share.Mode == driver.Read && (m.guess || len(m.list) > 0) {
		txn.Compare = append(txn.Compare, noneSince([]byte(prefix+writersDir), m.revision), madeAt(name, 0))
	} else {
		txn.Compare = append(txn.Compare, noneSince([]byte(prefix), m.revision))
	}
	if head, there := m.head(); there {
		name := []byte(head.name)
		txn.Compare = append(txn.Compare, madeAt(name, head.create))
		txn.Success = append(txn.Success, deletionOf(name))
	}
	txn.Success = append(txn.Success, putOf(name, []byte(e.value()), s.l.id))
	return step{place: prefix, txn: txn}
}

// took takes in that e was made after m was seen, and nothing else but what m says.
func (s *sharing) took(m *sharers, e *entry) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if head := s.b.entries[place{s.key, s.ID, ofHead}]; head != nil && head.state == waiting {
		s.b.drop(head)
	}
	switch {
	case e.shared.share.Mode == driver.Read: // another reader may have come
		s.k.known = 0
		s.k.last, s.k.steady = e.shared.slot, s.k.last == e.shared.slot
	case !m.others && !s.k.others:
		s.k.known = max(s.k.known, e.create)
	}
}

// create has an entry made. revision is 0 if the store refuses; a is its answer. If the outcome is unknown, the entry is
// unsure, and its lease tainted.
func (s *sharing) create(ctx context.Context, e *entry, t step) (revision int64, a answer, err error) {
	b := s.b
	revision, left, err := b.makeEntry(ctx, e, s.l, func(ctx context.Context) (revision int64, err error) {
		a, err = b.perform(ctx, t)
		if err == nil && a.txn.Succeeded {
			revision = a.revision
		}
		return revision, err
	})
	if left || err == nil || driver.Definite(err) {
		return revision, a, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.supersede(b.entries[e.place])
	e.state = unsure
	b.add(e, s.l)
	b.doubt(e, s.l)
	return 0, a, err
}

// refused answers a request that cannot be granted beside m. One from the head of the queue becomes the key's head, if it has
// none.
func (s *sharing) refused(ctx context.Context, m *sharers) error {
	head, headed := m.head()
	switch {
	case !s.Share.Head || headed && head.id != s.ID:
		return driver.ErrLocked
	case headed:
		return s.stayHead(ctx, head)
	}
	e := &entry{place: place{s.key, s.ID, ofHead}, shared: &sharedPart{of: s.k}}
	prefix := s.b.names.shared(s.key)
	e.name = prefix + headName
	name := []byte(e.name)
	create, _, err := s.create(ctx, e, step{place: prefix, txn: &pb.TxnRequest{
		Compare: []*pb.Compare{madeAt(name, 0)},
		Success: []*pb.RequestOp{putOf(name, []byte(headValue(s.ID)), s.l.id)},
	}})
	if err != nil {
		return err
	}
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.k.others = true // who has come meanwhile is not known
	if create > 0 && !s.l.lost {
		e.create = create
		s.b.add(e, s.l)
		s.b.lead(e)
	}
	return driver.ErrLocked
}

// stayHead sees to it that the head lives on: its lease, which may be another client's or tainted, and its deadline.
func (s *sharing) stayHead(ctx context.Context, rec record) error {
	l, there, err := s.b.rebound(ctx, s.Request, &rec)
	if err != nil {
		return err
	}
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if there && !l.lost {
		s.b.lead(s.b.known(place{s.key, s.ID, ofHead}, rec, l))
	}
	return driver.ErrLocked
}

// lead makes e a head until its lease ends, unless that is kept alive for it. backend.mu is held.
func (b *backend) lead(e *entry) {
	e.state, e.deadline = waiting, e.lease.until()
	b.plan(e)
}

// noneSince holds if nothing under a prefix was made or changed after a revision; 0: if there is nothing.
func noneSince(prefix []byte, revision int64) *pb.Compare {
	return &pb.Compare{
		Target: pb.Compare_MOD, Result: pb.Compare_LESS, Key: prefix, RangeEnd: queueEnd(prefix),
		TargetUnion: &pb.Compare_ModRevision{ModRevision: revision + 1},
	}
}

// countBetween counts the keys from one up to another.
func countBetween(from, to []byte) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: from, RangeEnd: to, CountOnly: true}}}
}

// allUnder reads all under a prefix.
func allUnder(prefix []byte) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: prefix, RangeEnd: queueEnd(prefix)}}}
}
