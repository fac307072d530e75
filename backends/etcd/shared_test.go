package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/holders"
	"github.com/coordgo/coord/internal/testserver"
)

var (
	reads  = driver.Share{Mode: driver.Read}
	writes = driver.Share{Mode: driver.Write}
)

func permits(weight, of int64) driver.Share {
	return driver.Share{Mode: driver.Permits, Weight: weight, Of: of}
}

func share1(name string, share driver.Share) driver.Request {
	return driver.Request{ID: newID(name), TTL: time.Hour, Share: share}
}

func asHead(r driver.Request) driver.Request {
	r.Share.Head = true
	return r
}

func tryShared(b *backend, key string, r driver.Request) (driver.Grant, error) {
	return b.Shared().TryLock(context.Background(), key, r)
}

func sameOutcome(x, y error) bool {
	for _, target := range []error{driver.ErrLocked, driver.ErrNotHeld, driver.ErrUnsupported} {
		if errors.Is(x, target) || errors.Is(y, target) {
			return errors.Is(x, target) && errors.Is(y, target)
		}
	}
	return x == nil && y == nil
}

// walk is a random walk of several clients over one key, beside the model.
type walk struct {
	t       *testing.T
	rng     *rand.Rand
	clients []*backend
	key     string
	model   holders.Record
	reqs    []driver.Request
	owner   []*backend
	tokens  map[int64]int64 // the store's, by the model's
	last    int64
}

var walkRules = holders.Rules{MaxHolders: maxHolders}

func (w *walk) share() driver.Share {
	switch w.rng.IntN(6) {
	case 0, 1:
		return reads
	case 2:
		return writes
	}
	of := 2 + w.rng.Int64N(3)
	return permits(1+w.rng.Int64N(of), of)
}

func (w *walk) step(now time.Time) {
	ctx := w.t.Context()
	if len(w.reqs) < 3 || w.rng.IntN(3) == 0 {
		w.reqs = append(w.reqs, share1("walk", w.share()))
		w.owner = append(w.owner, w.clients[w.rng.IntN(len(w.clients))])
	}
	i := max(0, len(w.reqs)-1-w.rng.IntN(6))
	r, b := w.reqs[i], w.owner[i]
	if w.rng.IntN(5) == 0 { // another client can do it by the id alone
		b = w.clients[w.rng.IntN(len(w.clients))]
	}
	switch op := w.rng.IntN(10); {
	case op < 5:
		r.Share.Head = w.rng.IntN(4) == 0
		want, wantErr := w.model.TryLock(r, now, walkRules)
		g, err := b.Shared().TryLock(ctx, w.key, r)
		w.agree(fmt.Sprintf("TryLock %+v", r.Share), want, wantErr, g, err)
	case op < 7:
		r.Share = w.share()
		want, wantErr := w.model.Renew(r, now, walkRules)
		g, err := b.Shared().Renew(ctx, w.key, r)
		w.agree(fmt.Sprintf("Renew to %+v", r.Share), want, wantErr, g, err)
	case op < 9:
		wantErr := w.model.Unlock(r.ID, now, walkRules)
		err := b.Shared().Unlock(ctx, w.key, r.ID)
		w.agree("Unlock", driver.Grant{}, wantErr, driver.Grant{}, err)
	case w.rng.IntN(6) == 0:
		other := w.clients[w.rng.IntN(len(w.clients))]
		wantErr := w.model.BreakNow(r.ID, now, walkRules)
		err := other.Shared().BreakNow(ctx, w.key, r.ID)
		w.agree("BreakNow", driver.Grant{}, wantErr, driver.Grant{}, err)
	case w.rng.IntN(4) == 0:
		other := w.clients[w.rng.IntN(len(w.clients))]
		wantErr := w.model.Break(r.ID, now, walkRules)
		err := other.Shared().Break(ctx, w.key, r.ID)
		w.agree("Break", driver.Grant{}, wantErr, driver.Grant{}, err)
	default:
		w.holders(w.clients[w.rng.IntN(len(w.clients))], now)
	}
}

func (w *walk) agree(op string, want driver.Grant, wantErr error, g driver.Grant, err error) {
	w.t.Helper()
	if !sameOutcome(wantErr, err) {
		w.t.Fatalf("%s: %v, the model says %v", op, err, wantErr)
	}
	if want.Token == 0 {
		return
	}
	if g.Slot != want.Slot || g.Of != want.Of {
		w.t.Fatalf("%s: slot %d of %d, the model says %d of %d", op, g.Slot, g.Of, want.Slot, want.Of)
	}
	known, again := w.tokens[want.Token]
	switch {
	case again && known != g.Token:
		w.t.Fatalf("%s: token %d, before %d", op, g.Token, known)
	case !again && g.Token <= w.last:
		w.t.Fatalf("%s: token %d after %d", op, g.Token, w.last)
	case !again:
		w.tokens[want.Token], w.last = g.Token, g.Token
	}
}

func (w *walk) holders(b *backend, now time.Time) {
	w.t.Helper()
	got := must[[]driver.Holder](w.t)(b.Shared().Holders(w.t.Context(), w.key))
	want := w.model.Live(now)
	if len(got) != len(want) {
		w.t.Fatalf("%d holders, the model says %d", len(got), len(want))
	}
	for i, h := range got {
		m := want[i]
		if h.ID != m.ID || h.Released != m.Released || h.Mode != m.Mode || h.Weight != m.Weight || h.Of != m.Of || h.Slot != m.Slot ||
			int64(h.Token) != w.tokens[int64(m.Token)] || h.TTL <= 0 {
			w.t.Fatalf("holder %+v, the model says %+v", h, m)
		}
	}
}

// Whatever clients do one after the other, the store answers as the model: who is granted, with which slot and bound, who
// holds. Tokens rise.
func TestSharedKeepsToTheModel(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	clients := []*backend{connect(t, srv.Addr), connect(t, srv.Addr), connect(t, srv.Addr)}
	for seed := range uint64(24) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := &walk{
				t: t, rng: rand.New(rand.NewPCG(seed, 18)), clients: clients[:1+seed%3], key: fmt.Sprint("k", seed),
				tokens: make(map[int64]int64),
			}
			now := time.Now()
			for range 60 {
				w.step(now)
			}
			w.holders(clients[0], now)
		})
	}
}

// resource counts who uses it at a time.
type resource struct {
	t     *testing.T
	bound int64
	mu    sync.Mutex
	used  int64
	slots map[int]int64 // live, with their token
	last  map[int]int64 // the last token of each slot
	freed chan struct{} // closed with the next release
}

func (r *resource) enter(weight int64, g driver.Grant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used += weight; r.used > r.bound {
		r.t.Errorf("%d of %d permits in use", r.used, r.bound)
	}
	if _, taken := r.slots[g.Slot]; taken {
		r.t.Errorf("slot %d is given twice", g.Slot)
	}
	if g.Token <= r.last[g.Slot] {
		r.t.Errorf("slot %d: token %d after %d", g.Slot, g.Token, r.last[g.Slot])
	}
	r.slots[g.Slot], r.last[g.Slot] = g.Token, g.Token
}

func (r *resource) leave(weight int64, g driver.Grant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used -= weight
	delete(r.slots, g.Slot)
}

// release gives a channel that is closed with the next release.
func (r *resource) release() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.freed
}

// released closes it.
func (r *resource) released() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.freed)
	r.freed = make(chan struct{})
}

// late reports whether a busy machine has answered a call too late for its outcome to be known.
func late(err error) bool { return err != nil && !driver.Definite(err) }

// manyHolders has 64 goroutines of four clients take holds of one key until so many were granted, and each of them leave again.
func manyHolders(t *testing.T, addrs []string, grants int64, share func(i int) driver.Share, bound int64) {
	res := &resource{t: t, bound: bound, slots: make(map[int]int64), last: make(map[int]int64), freed: make(chan struct{})}
	var (
		wg      sync.WaitGroup
		granted atomic.Int64
	)
	for c := range 4 {
		b := connect(t, addrs...)
		for i := range 16 {
			wg.Go(func() {
				defer res.released() // so that nobody waits for one that has failed
				for granted.Load() < grants && !t.Failed() {
					r := share1(fmt.Sprint("c", c), share(16*c+i))
					freed := res.release()
					g, err := tryShared(b, "k", r)
					for (errors.Is(err, driver.ErrLocked) || late(err)) && !t.Failed() {
						if !late(err) {
							<-freed
						}
						freed = res.release()
						g, err = tryShared(b, "k", r)
					}
					if err != nil {
						t.Error(err)
						return
					}
					weight := max(r.Share.Weight, 1)
					if r.Share.Mode == driver.Write {
						weight = bound
					}
					granted.Add(1)
					res.enter(weight, g)
					runtime.Gosched()
					res.leave(weight, g)
					err = b.Shared().Unlock(t.Context(), "k", r.ID)
					for late(err) && !t.Failed() {
						if err = b.Shared().Unlock(t.Context(), "k", r.ID); errors.Is(err, driver.ErrNotHeld) {
							err = nil // the call before it was late, and did it
						}
					}
					if err != nil {
						t.Error(err)
					}
					res.released()
				}
			})
		}
	}
	wg.Wait()
}

func TestNightlySharedBoundIsKeptByACluster(t *testing.T) {
	t.Parallel()
	manyHolders(t, testserver.EtcdCluster(t).Addrs(), 60, func(i int) driver.Share { return permits(1+int64(i%3), 5) }, 5)
}

// A head whose client dies is gone with its lease, the shortest one, however long its hold would be. One that does not ask again
// is removed at the end of its time.
func TestHeadThatDies(t *testing.T) {
	t.Parallel() // it mostly waits
	srv := shared(t)
	b, dead, silent := connect(t, srv.Addr), connect(t, srv.Addr), connect(t, srv.Addr)
	dead.headFor, silent.headFor = driver.HeadFor, driver.HeadFor
	holder := share1("holder", permits(1, 2))
	must[driver.Grant](t)(tryShared(b, "k", holder))
	head := asHead(share1("dead", writes))
	var kv *mvccpb.KeyValue
	var lease *clientv3.LeaseTimeToLiveResponse
	// refused reports whether a head was; not, if the server did not renew its short lease in time.
	refused := func(b *backend, r driver.Request) bool {
		_, err := tryShared(b, "k", r)
		if !errors.Is(err, driver.ErrLocked) && !errors.Is(err, driver.ErrNotSent) {
			t.Fatal(err)
		}
		return errors.Is(err, driver.ErrLocked)
	}
	until(t, hung, "a head that lasts until it is looked at", func() bool {
		for range 2 { // it stays the head
			if !refused(dead, head) {
				return false
			}
		}
		found := entriesOf(t, b.client, b.names.shared("k")+headName).Kvs
		if len(found) == 0 {
			return false
		}
		kv = found[0]
		lease = must[*clientv3.LeaseTimeToLiveResponse](t)(b.client.TimeToLive(t.Context(), clientv3.LeaseID(kv.Lease)))
		return lease.TTL >= 0
	})
	if want := b.seconds(driver.HeadFor); lease.GrantedTTL != want || head.TTL <= driver.HeadFor {
		t.Errorf("the head of a request for %v has a lease of %d s, want %d s", head.TTL, lease.GrantedTTL, want)
	}
	_, _ = b.client.Revoke(t.Context(), clientv3.LeaseID(kv.Lease)) // it may have ended meanwhile
	must[driver.Grant](t)(tryShared(b, "k", share1("next", permits(1, 2))))

	must[driver.Grant](t)(tryShared(silent, "other", driver.Request{ID: newID("x"), TTL: time.Second, Share: reads}))
	head = asHead(driver.Request{ID: newID("silent"), TTL: time.Second, Share: writes})
	until(t, hung, "a head", func() bool { return refused(silent, head) })
	until(t, hung, "the head to be removed", func() bool {
		return entriesOf(t, b.client, b.names.shared("k")+headName).Count == 0
	})
}
