package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// loseTxn loses the next transaction that changes something: its reply alone if applied, else the request too.
func (m *meddler) loseTxn(applied bool) (lost *atomic.Bool) {
	lost = new(atomic.Bool)
	m.on(func(_ string, req any, send func() error) error {
		if txn, ok := req.(*pb.TxnRequest); !ok || !altering(txn) || lost.Swap(true) {
			return send()
		}
		if applied {
			if err := send(); err != nil {
				return err
			}
		}
		return errLost
	})
	return lost
}

func altering(txn *pb.TxnRequest) bool {
	return slices.ContainsFunc(txn.Success, func(op *pb.RequestOp) bool {
		return op.GetRequestPut() != nil || op.GetRequestDeleteRange() != nil || op.GetRequestTxn() != nil && altering(op.GetRequestTxn())
	})
}

// atStore is what the store has of a key: mode, weight, slot of each hold, and head.
func atStore(t testing.TB, b *backend, key string) []string {
	t.Helper()
	list := []string{}
	for _, kv := range entriesOf(t, b.client, b.names.shared(key)).Kvs {
		rec := must[record](t)(readShared(b.names.shared(key), kv))
		switch {
		case rec.head:
			list = append(list, "head")
		case rec.released:
			list = append(list, "broken")
		default:
			list = append(list, fmt.Sprintf("%v%d@%d", rec.share.Mode, rec.share.Weight, rec.slot))
		}
	}
	return list
}

// A step whose reply or request was lost is made again by its id, and has then been made once: nothing else is left, and what
// was kept was kept.
func TestSharedLostReplies(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	other := connect(t, srv.Addr)
	ttl := time.Minute
	req := func(share driver.Share) driver.Request { return driver.Request{ID: newID("a"), TTL: ttl, Share: share} }
	type run struct {
		b   *backend
		key string
		r   driver.Request
	}
	take := func(t *testing.T, b *backend, key string, r driver.Request) {
		t.Helper()
		must[driver.Grant](t)(tryShared(b, key, r))
	}
	tryLock := func(c run) error { _, err := tryShared(c.b, c.key, c.r); return err }
	full := func(t *testing.T, c run) { take(t, other, c.key, req(permits(2, 2))) }
	for name, step := range map[string]struct {
		share   driver.Share
		before  func(t *testing.T, c run)
		op      func(c run) error
		refused bool // the step itself
		want    []string
	}{
		"a reader": {share: reads, op: tryLock, want: []string{"read0@0"}},
		"a reader, not alone": {
			share: reads, op: tryLock, want: []string{"read0@0", "read0@1"},
			before: func(t *testing.T, c run) { take(t, other, c.key, req(reads)) },
		},
		"a writer": {share: writes, op: tryLock, want: []string{"write0@0"}},
		"permits, not alone": {
			share: permits(2, 4), op: tryLock, want: []string{"permits1@0", "permits2@1"},
			before: func(t *testing.T, c run) { take(t, other, c.key, req(permits(1, 4))) },
		},
		"a head": {share: driver.Share{Mode: driver.Write, Head: true}, op: tryLock, refused: true, want: []string{"permits2@0", "head"}, before: full},
		"the head's grant": {
			share: driver.Share{Mode: driver.Write, Head: true}, op: tryLock, want: []string{"write0@0"},
			before: func(t *testing.T, c run) {
				r := req(reads)
				take(t, other, c.key, r)
				if err := tryLock(c); !errors.Is(err, driver.ErrLocked) {
					t.Fatal(err)
				}
				if err := other.Shared().Unlock(t.Context(), c.key, r.ID); err != nil {
					t.Fatal(err)
				}
			},
		},
		"a downgrade": {share: writes, want: []string{"read0@0"}, op: func(c run) error {
			c.r.Share = reads
			_, err := c.b.Shared().Renew(context.Background(), c.key, c.r)
			return err
		}, before: func(t *testing.T, c run) { take(t, c.b, c.key, c.r) }},
		"fewer permits": {share: permits(3, 3), want: []string{"permits1@0"}, op: func(c run) error {
			c.r.Share = permits(1, 3)
			_, err := c.b.Shared().Renew(context.Background(), c.key, c.r)
			return err
		}, before: func(t *testing.T, c run) { take(t, c.b, c.key, c.r) }},
		"a renewal on another lease": {share: reads, want: []string{"read0@0"}, op: func(c run) error {
			_, err := c.b.Shared().Renew(context.Background(), c.key, c.r)
			return err
		}, before: func(t *testing.T, c run) {
			take(t, c.b, c.key, c.r)
			c.b.taintAll()
		}},
		"a release": {share: writes, want: []string{}, op: func(c run) error {
			return c.b.Shared().Unlock(context.Background(), c.key, c.r.ID)
		}, before: func(t *testing.T, c run) { take(t, c.b, c.key, c.r) }},
		"a release after a downgrade of which nothing is known": {share: writes, want: []string{}, op: func(c run) error {
			return c.b.Shared().Unlock(context.Background(), c.key, c.r.ID)
		}, before: func(t *testing.T, c run) {
			take(t, c.b, c.key, c.r)
			down := c.r
			down.Share = reads
			must[driver.Grant](t)(other.Shared().Renew(t.Context(), c.key, down))
		}},
		"a head's release": {share: driver.Share{Mode: driver.Write, Head: true}, want: []string{"permits2@0"}, op: func(c run) error {
			return c.b.Shared().Unlock(context.Background(), c.key, c.r.ID)
		}, before: func(t *testing.T, c run) {
			full(t, c)
			if err := tryLock(c); !errors.Is(err, driver.ErrLocked) {
				t.Fatal(err)
			}
		}},
		"a break": {share: writes, want: []string{"broken"}, op: func(c run) error {
			return c.b.Shared().Break(context.Background(), c.key, c.r.ID)
		}, before: func(t *testing.T, c run) { take(t, c.b, c.key, c.r) }},
	} {
		for _, applied := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, applied %v", name, applied), func(t *testing.T) {
				b, m := meddled(t, srv.Addr)
				c := run{b, fmt.Sprint(name, applied), req(step.share)}
				if step.before != nil {
					step.before(t, c)
				}
				lost := m.loseTxn(applied)
				err := step.op(c)
				m.on(nil)
				if !lost.Load() {
					t.Fatal("nothing was lost: the test shows nothing")
				}
				if err != nil && driver.Definite(err) && !(step.refused && errors.Is(err, driver.ErrLocked)) {
					t.Errorf("lost: %v, want an unknown outcome", err)
				}
				made := entriesOf(t, other.client, other.names.shared(c.key)).Kvs
				if err != nil {
					err = step.op(c)
				}
				if gone := applied && errors.Is(err, driver.ErrNotHeld); err != nil && !gone && !(step.refused && errors.Is(err, driver.ErrLocked)) {
					t.Errorf("made again: %v", err)
				}
				if got := atStore(t, other, c.key); !slices.Equal(got, step.want) {
					t.Errorf("at the store: %v, want %v", got, step.want)
				}
				now := entriesOf(t, other.client, other.names.shared(c.key)).Kvs
				if applied && len(now) > 0 && (len(made) != len(now) || made[len(made)-1].CreateRevision != now[len(now)-1].CreateRevision) {
					t.Error("what was made was made anew")
				}
			})
		}
	}
}

// A head that was granted without knowing it gives the hold back, or renews it, as one that knows.
func TestSharedLostGrantOfHead(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	b, m := meddled(t, srv.Addr)
	other := connect(t, srv.Addr)
	for name, renews := range map[string]bool{"release": false, "renewal": true} {
		holder, head := share1("holder", reads), asHead(share1("head", writes))
		must[driver.Grant](t)(tryShared(other, name, holder))
		if _, err := tryShared(b, name, head); !errors.Is(err, driver.ErrLocked) {
			t.Fatal(err)
		}
		if err := other.Shared().Unlock(t.Context(), name, holder.ID); err != nil {
			t.Fatal(err)
		}
		m.loseTxn(true)
		if _, err := tryShared(b, name, head); err == nil || driver.Definite(err) {
			t.Fatalf("a lost reply: %v, want an unknown outcome", err)
		}
		m.on(nil)
		if got := atStore(t, b, name); !slices.Equal(got, []string{"write0@0"}) {
			t.Fatalf("at the store: %v", got)
		}
		if renews {
			must[driver.Grant](t)(b.Shared().Renew(t.Context(), name, head))
		}
		if err := b.Shared().Unlock(t.Context(), name, head.ID); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := atStore(t, b, name); len(got) > 0 {
			t.Errorf("%s: left %v", name, got)
		}
	}
}

// A store that is full takes no new holds, keeps those that are there for as long as they are renewed, and lets them go.
func TestSharedFullStore(t *testing.T) {
	t.Parallel() // it mostly waits
	srv := testserver.Etcd(t, testserver.Durable())
	b := connect(t, srv.Addr)
	const ttl = time.Minute
	req := func(share driver.Share) driver.Request { return driver.Request{ID: newID("a"), TTL: ttl, Share: share} }
	holds := []driver.Hold{{Key: "r", Request: req(reads)}, {Key: "r", Request: req(reads)}, {Key: "p", Request: req(permits(2, 3))}}
	tokens := make([]int64, len(holds))
	for i, h := range holds {
		g := must[driver.Grant](t)(tryShared(b, h.Key, h.Request))
		tokens[i] = g.Token
	}
	lease := int64(b.onlyLease(t))
	b.taintAll() // they are to be written again, which a full store refuses
	setAlarm(t, srv.Addr, pb.AlarmRequest_ACTIVATE)
	runsDown(t, b, lease, ttl, func() {}) // nobody renews them
	until(t, hung, "the lease to be kept alive", func() bool {
		b.age(0.5)
		for i, r := range b.Shared().RenewAll(t.Context(), holds) {
			if r.Err != nil || r.Grant.Token != tokens[i] {
				t.Fatalf("renewal of %s: %+v, want token %d", holds[i].Key, r, tokens[i])
			}
		}
		return left(t, b, lease) > ttl-3*time.Second
	})
	if _, err := tryShared(b, "p", req(permits(1, 3))); err == nil {
		t.Error("a full store granted")
	}
	for _, h := range holds {
		if err := b.Shared().Unlock(t.Context(), h.Key, h.ID); err != nil {
			t.Errorf("Unlock of %s: %v", h.Key, err)
		}
	}
	setAlarm(t, srv.Addr, pb.AlarmRequest_DEACTIVATE)
	must[driver.Grant](t)(tryShared(b, "p", share1("b", permits(3, 3))))
}

// taint marks a lease that may have a ghost on it.
func (b *backend) taint(l *lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l.tainted = true
}

// taintAll taints all leases, as lost replies would.
func (b *backend) taintAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.granted {
		l.tainted = true
	}
}

// One holder more than the store keeps is refused, by readers and permits alike. One that leaves makes room, in its slot.
func TestSharedMostHolders(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	lease := must[*clientv3.LeaseGrantResponse](t)(b.client.Grant(t.Context(), 600)).ID
	for i := range maxHolders {
		name := b.names.shared("k") + shareName(driver.Read, i)
		must[*clientv3.PutResponse](t)(b.client.Put(t.Context(), name, shareValue(shareHeld, reads, newID("a")), clientv3.WithLease(lease)))
	}
	for _, share := range []driver.Share{reads, permits(1, 1000)} {
		_, err := tryShared(b, "k", share1("b", share))
		if !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), strconv.Itoa(maxHolders)) {
			t.Errorf("one more, %v: %v, want ErrUnsupported that names %d", share.Mode, err, maxHolders)
		}
	}
	if _, err := tryShared(b, "k", share1("b", writes)); !errors.Is(err, driver.ErrLocked) {
		t.Errorf("a writer: %v, want ErrLocked", err)
	}
	must[*clientv3.DeleteResponse](t)(b.client.Delete(t.Context(), b.names.shared("k")+shareName(driver.Read, 100)))
	if g := must[driver.Grant](t)(tryShared(b, "k", share1("b", reads))); g.Slot != 100 {
		t.Errorf("slot %d, want 100", g.Slot)
	}
}

// What an unknown attempt has made ends with its lease, though other holds of the client live on.
func TestSharedGhostEnds(t *testing.T) {
	t.Parallel() // it mostly waits
	srv := shared(t)
	b, m := meddled(t, srv.Addr)
	const ttl = time.Minute
	kept := driver.Request{ID: newID("kept"), TTL: ttl, Share: reads}
	g := must[driver.Grant](t)(tryShared(b, "kept", kept))
	m.loseTxn(true)
	if _, err := tryShared(b, "k", driver.Request{ID: newID("ghost"), TTL: ttl, Share: permits(1, 1)}); err == nil || driver.Definite(err) {
		t.Fatalf("a lost reply: %v, want an unknown outcome", err)
	}
	m.on(nil)
	entries := entriesOf(t, b.client, b.names.shared("k")).Kvs
	if len(entries) != 1 {
		t.Fatal("the request was not applied: the test shows nothing")
	}
	renew := func() {
		b.age(0.5) // a keepalive is due
		again, err := b.Shared().Renew(t.Context(), "kept", kept)
		if err != nil || again.Token != g.Token {
			t.Fatalf("renewal of the other hold: %+v, %v", again, err)
		}
	}
	runsDown(t, b, entries[0].Lease, ttl, renew)
	must[*clientv3.LeaseRevokeResponse](t)(b.client.Revoke(t.Context(), clientv3.LeaseID(entries[0].Lease))) // it is over
	renew()
	must[driver.Grant](t)(tryShared(b, "k", share1("next", permits(1, 1))))
}

// A late request for a grant is refused once another has come, and once its head was withdrawn.
func TestSharedLateGrant(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	b, m := meddled(t, srv.Addr)
	other := connect(t, srv.Addr)
	send := func(req *pb.TxnRequest) bool {
		t.Helper()
		return must[*pb.TxnResponse](t)(clientv3.RetryKVClient(other.client).Txn(t.Context(), req)).Succeeded
	}
	for name, share := range map[string]driver.Share{"reader": reads, "writer": writes, "permits": permits(1, 1)} {
		caught := m.lose(1)
		if _, err := tryShared(b, name, share1("late", share)); err == nil || driver.Definite(err) {
			t.Fatalf("a lost request: %v", err)
		}
		must[driver.Grant](t)(tryShared(other, name, share1("w", writes)))
		if send(<-caught) {
			t.Errorf("a late %s was granted beside a writer", name)
		}
	}
	m.on(nil)
	holder, head := share1("holder", reads), asHead(share1("head", writes))
	must[driver.Grant](t)(tryShared(other, "k", holder))
	if _, err := tryShared(b, "k", head); !errors.Is(err, driver.ErrLocked) {
		t.Fatal(err)
	}
	if err := other.Shared().Unlock(t.Context(), "k", holder.ID); err != nil {
		t.Fatal(err)
	}
	caught := m.lose(1)
	if _, err := tryShared(b, "k", head); err == nil || driver.Definite(err) {
		t.Fatalf("a lost request: %v", err)
	}
	m.on(nil)
	if err := b.Shared().Unlock(t.Context(), "k", head.ID); err != nil {
		t.Errorf("Unlock of the head: %v", err)
	}
	if send(<-caught) {
		t.Error("a late grant came although its head was withdrawn")
	}
}

// A lease that is revoked loses all holds on it, and nobody else's.
func TestSharedLeaseRevoked(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	b, other := connect(t, srv.Addr), connect(t, srv.Addr)
	r, theirs := share1("a", permits(1, 2)), share1("b", permits(1, 2))
	must[driver.Grant](t)(tryShared(b, "k", r))
	must[driver.Grant](t)(tryShared(other, "k", theirs))
	kv := entriesOf(t, b.client, b.names.shared("k")).Kvs[0]
	must[*clientv3.LeaseRevokeResponse](t)(b.client.Revoke(t.Context(), clientv3.LeaseID(kv.Lease)))
	if _, err := b.Shared().Renew(t.Context(), "k", r); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Renew after the loss: %v", err)
	}
	must[driver.Grant](t)(other.Shared().Renew(t.Context(), "k", theirs))
	g := must[driver.Grant](t)(tryShared(b, "k", share1("c", permits(1, 2))))
	if g.Slot != 0 {
		t.Errorf("slot %d after the loss of slot 0", g.Slot)
	}
}

// What makes a hold smaller is no loss of it, and a break is.
func TestSharedLossIsBreak(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	b, other := connect(t, srv.Addr), connect(t, srv.Addr)
	r := share1("a", permits(3, 3))
	must[driver.Grant](t)(tryShared(b, "k", r))
	r.Share = permits(1, 3)
	must[driver.Grant](t)(b.Shared().Renew(t.Context(), "k", r))
	must[driver.Grant](t)(tryShared(other, "k", share1("b", permits(2, 3))))
	if err := other.Shared().Break(t.Context(), "k", r.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Shared().Renew(t.Context(), "k", r); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Renew of a broken hold: %v", err)
	}
	if err := b.Shared().Unlock(t.Context(), "k", r.ID); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Unlock of a broken hold: %v", err)
	}
	if _, err := tryShared(other, "k", share1("c", permits(1, 3))); !errors.Is(err, driver.ErrLocked) {
		t.Errorf("a grant of what a broken hold has: %v", err)
	}
}

// With one of three members hung, holds live, and most calls are answered by the others.
func TestNightlySharedOneMemberHangs(t *testing.T) {
	t.Parallel()
	c := testserver.EtcdCluster(t)
	cfg := clientConfig(c.Addrs()...)
	cfg.DialOptions = append(cfg.DialOptions, DialOptions()...)
	b := connectWith(t, cfg)
	r := driver.Request{ID: newID("a"), TTL: 10 * time.Minute, Share: reads}
	g := must[driver.Grant](t)(tryShared(b, "k", r))
	victim := c.Followers(c.Leader())[0]
	victim.Pause()
	defer victim.Resume()
	failed := 0
	for range 60 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		next := driver.Request{ID: newID("b"), TTL: 10 * time.Minute, Share: reads}
		n, err := b.Shared().TryLock(ctx, "k", next)
		if err == nil {
			if n.Token <= g.Token || n.Slot == 0 {
				t.Errorf("granted %+v beside %+v", n, g)
			}
			err = b.Shared().Unlock(ctx, "k", next.ID)
		}
		cancel()
		if err != nil {
			failed++
		}
	}
	if failed > 12 {
		t.Errorf("%d of 60 takes and releases failed", failed)
	}
	if again := must[driver.Grant](t)(b.Shared().Renew(t.Context(), "k", r)); again.Token != g.Token {
		t.Errorf("renewed with token %d, want %d", again.Token, g.Token)
	}
}

// A server that takes few operations in a transaction gets few, however many hold a key.
func TestSharedFewOperations(t *testing.T) {
	t.Parallel()
	srv := testserver.Etcd(t, testserver.WithFlags("--max-txn-ops", "64"))
	b := connect(t, srv.Addr)
	var (
		mu    sync.Mutex
		holds []driver.Hold
		wg    sync.WaitGroup
	)
	for i := range 200 {
		wg.Go(func() {
			h := driver.Hold{Key: fmt.Sprint("k", i%80), Request: share1("a", reads)}
			if i%80 == 0 {
				h.Key = "full"
			}
			if _, err := tryShared(b, h.Key, h.Request); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			holds = append(holds, h)
		})
	}
	wg.Wait()
	for i := range 100 {
		r := share1("p", permits(1, 1000))
		if g := must[driver.Grant](t)(tryShared(b, "permits", r)); g.Slot != i {
			t.Fatalf("slot %d of the holder %d", g.Slot, i)
		}
		holds = append(holds, driver.Hold{Key: "permits", Request: r})
	}
	for i, r := range b.Shared().RenewAll(t.Context(), holds) {
		if r.Err != nil || r.Grant.Token == 0 {
			t.Fatalf("renewal of %s: %+v", holds[i].Key, r)
		}
	}
	for _, h := range holds {
		wg.Go(func() {
			if err := b.Shared().Unlock(t.Context(), h.Key, h.ID); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// What is not ours is told, and left as it is.
func TestSharedForeignEntries(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	ctx := t.Context()
	lease := must[*clientv3.LeaseGrantResponse](t)(b.client.Grant(ctx, 600)).ID
	id := newID("a")
	for name, foreign := range map[string]struct {
		entry, value string
		lease        clientv3.LeaseID
	}{
		"another value":        {"r/0000", "something else", lease},
		"another version":      {"r/0000", strings.Replace(shareValue(shareHeld, reads, id), "1", "2", 1), lease},
		"without a lease":      {"r/0000", shareValue(shareHeld, reads, id), 0},
		"a writer's name":      {"w/0001", shareValue(shareHeld, writes, id), lease},
		"a reader's name":      {"r/1", shareValue(shareHeld, reads, id), lease},
		"a head among readers": {"r/0000", shareValue(shareHead, driver.Share{}, id), lease},
		"permits of a writer":  {"w/0000", shareValue(shareHeld, permits(1, 1), id), lease},
		"a slot too high":      {"r/1024", shareValue(shareHeld, reads, id), lease},
		"no id":                {"w/head", shareValue(shareHead, driver.Share{}, "two words"), lease},
	} {
		t.Run(name, func(t *testing.T) {
			queue := b.names.shared(name)
			must[*clientv3.PutResponse](t)(b.client.Put(ctx, queue+foreign.entry, foreign.value, clientv3.WithLease(foreign.lease)))
			s := b.Shared()
			for op, call := range map[string]func() error{
				"TryLock to read":  func() error { _, err := s.TryLock(ctx, name, share1("c", reads)); return err },
				"TryLock to write": func() error { _, err := s.TryLock(ctx, name, asHead(share1("c", writes))); return err },
				"TryLock permits":  func() error { _, err := s.TryLock(ctx, name, share1("c", permits(1, 3))); return err },
				"TryLock by id":    func() error { r := share1("c", reads); r.ID = id; _, err := s.TryLock(ctx, name, r); return err },
				"Renew of its id":  func() error { r := share1("c", reads); r.ID = id; _, err := s.Renew(ctx, name, r); return err },
				"Unlock of its id": func() error { return s.Unlock(ctx, name, id) },
				"Break of its id":  func() error { return s.Break(ctx, name, id) },
				"Holders":          func() error { _, err := s.Holders(ctx, name); return err },
			} {
				if err := call(); !errors.Is(err, driver.ErrCorrupt) {
					t.Errorf("%s: %v, want ErrCorrupt", op, err)
				}
			}
			if kvs := entriesOf(t, b.client, queue).Kvs; len(kvs) != 1 || string(kvs[0].Value) != foreign.value {
				t.Errorf("left %v", kvs)
			}
		})
	}
}

// A value that was put in place of a hold's is a loss of it, and is left alone.
func TestSharedOverwritten(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	r := share1("a", reads)
	must[driver.Grant](t)(tryShared(b, "k", r))
	name := string(entriesOf(t, b.client, b.names.shared("k")).Kvs[0].Key)
	must[*clientv3.PutResponse](t)(b.client.Put(t.Context(), name, "something else"))
	if err := b.Shared().Unlock(t.Context(), "k", r.ID); !errors.Is(err, driver.ErrCorrupt) {
		t.Errorf("Unlock: %v", err)
	}
	if _, err := b.Shared().Renew(t.Context(), "k", r); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Renew: %v", err)
	}
	if kvs := entriesOf(t, b.client, b.names.shared("k")).Kvs; len(kvs) != 1 || string(kvs[0].Value) != "something else" {
		t.Errorf("left %v", kvs)
	}
}

// However often a key is taken, its entries have few names, which the server would search for each take.
func TestSharedNamesAreUsedAgain(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watcher, base := raw(t, srv.Addr), testserver.NameOf(t)+"/coord/shared/"
	events := watcher.Watch(ctx, base, clientv3.WithPrefix(), clientv3.WithRev(1))
	manyHolders(t, []string{srv.Addr}, 60, func(i int) driver.Share {
		if i%9 == 0 {
			return asHead(driver.Request{Share: writes}).Share
		}
		return reads
	}, 1<<20)
	must[*clientv3.PutResponse](t)(watcher.Put(t.Context(), base+"end", ""))
	names := make(map[string]int)
	for resp := range events {
		for _, ev := range resp.Events {
			names[string(ev.Kv.Key)]++
		}
		if names[base+"end"] > 0 {
			break
		}
	}
	if len(names) > 1+64+2 {
		t.Errorf("%d names for 64 holders at a time", len(names))
	}
	for name := range names {
		if !strings.HasPrefix(name, base+"k/r/00") && !strings.HasPrefix(name, base+"k/w/") && name != base+"end" {
			t.Errorf("name %s", name)
		}
	}
}
