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

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord"
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

var walkRules = holders.Rules{MaxHolders: driver.MaxHolders}

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
	case w.rng.IntN(4) == 0:
		other := w.clients[w.rng.IntN(len(w.clients))]
		wantErr := w.model.Break(r.ID, now, walkRules)
		err := other.Shared().(driver.Breaker).Break(ctx, w.key, r.ID)
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
	srv := testserver.Etcd(t)
	clients := []*backend{connect(t, srv.Addr), connect(t, srv.Addr), connect(t, srv.Addr)}
	for seed := range uint64(60) {
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

// crowd has 64 goroutines of four clients take holds of one key until so many were granted, and each of them leave again.
func crowd(t *testing.T, addrs []string, grants int64, share func(i int) driver.Share, bound int64) {
	res := &resource{t: t, bound: bound, slots: make(map[int]int64), last: make(map[int]int64)}
	var (
		wg      sync.WaitGroup
		granted atomic.Int64
	)
	for c := range 4 {
		b := connect(t, addrs...)
		for i := range 16 {
			wg.Go(func() {
				for granted.Load() < grants && !t.Failed() {
					r := share1(fmt.Sprint("c", c), share(16*c+i))
					g, err := tryShared(b, "k", r)
					for errors.Is(err, driver.ErrLocked) && !t.Failed() {
						runtime.Gosched()
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
					if err := b.Shared().Unlock(t.Context(), "k", r.ID); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
}

func TestSharedBoundIsKept(t *testing.T) {
	srv := testserver.Etcd(t)
	for name, tc := range map[string]struct {
		bound int64
		share func(i int) driver.Share
	}{
		"one permit each": {16, func(int) driver.Share { return permits(1, 16) }},
		"weights":         {7, func(i int) driver.Share { return permits(1+int64(i%4), 7) }},
		"readers and writers": {1 << 20, func(i int) driver.Share {
			if i%8 == 0 {
				return writes
			}
			return reads
		}},
	} {
		t.Run(name, func(t *testing.T) {
			crowd(t, []string{srv.Addr}, 400, tc.share, tc.bound)
			left := must[*clientv3.GetResponse](t)(raw(t, srv.Addr).Get(t.Context(), "coord/shared/", clientv3.WithPrefix()))
			if left.Count != 0 {
				t.Errorf("%d entries are left", left.Count)
			}
		})
	}
}

func TestSharedBoundIsKeptByACluster(t *testing.T) {
	crowd(t, testserver.EtcdCluster(t).Addrs(), 150, func(i int) driver.Share { return permits(1+int64(i%3), 5) }, 5)
}

// While the head waits nobody else is granted, also not beside holds that would have room for it. It is removed by its
// grant, by Unlock, and with its lease.
func TestHeadKeepsOthersOut(t *testing.T) {
	srv := testserver.Etcd(t)
	b, other := connect(t, srv.Addr), connect(t, srv.Addr)
	holder := share1("holder", permits(2, 3))
	must[driver.Grant](t)(tryShared(b, "k", holder))
	head := asHead(share1("head", permits(2, 3)))
	refused := func(b *backend, r driver.Request, when string) {
		t.Helper()
		if _, err := tryShared(b, "k", r); !errors.Is(err, driver.ErrLocked) {
			t.Fatalf("%s: %v, want ErrLocked", when, err)
		}
	}
	refused(other, head, "the head, while there is no room")
	for _, c := range []*backend{b, other} {
		refused(c, share1("light", permits(1, 3)), "a newcomer beside a head")
		refused(c, share1("reader", reads), "a reader beside a head")
		refused(c, asHead(share1("second", permits(1, 3))), "another head")
	}
	if err := b.Shared().Unlock(t.Context(), "k", holder.ID); err != nil {
		t.Fatal(err)
	}
	refused(b, share1("light", permits(1, 3)), "a newcomer beside a head that has room")
	g := must[driver.Grant](t)(tryShared(other, "k", head))
	must[driver.Grant](t)(tryShared(b, "k", share1("light", permits(1, 3))))
	if again := must[driver.Grant](t)(tryShared(other, "k", head)); again.Token != g.Token || again.Slot != g.Slot {
		t.Errorf("a repeated attempt: %+v, before %+v", again, g)
	}

	next := asHead(share1("next", writes))
	refused(other, next, "a writer")
	refused(other, next, "a writer again")
	if err := other.Shared().Unlock(t.Context(), "k", next.ID); err != nil {
		t.Errorf("Unlock of a head: %v", err)
	}
	if err := other.Shared().Unlock(t.Context(), "k", next.ID); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Unlock of a head that was: %v", err)
	}
	must[driver.Grant](t)(tryShared(b, "k", share1("reader", reads)))
}

// A head whose client dies is gone with its lease, and one that does not ask again is removed at the end of its time.
func TestHeadThatDies(t *testing.T) {
	srv := testserver.Etcd(t, testserver.Durable())
	b, dead, silent := connect(t, srv.Addr), connect(t, srv.Addr), connect(t, srv.Addr)
	holder := share1("holder", permits(1, 2))
	must[driver.Grant](t)(tryShared(b, "k", holder))
	head := asHead(share1("dead", writes))
	if _, err := tryShared(dead, "k", head); !errors.Is(err, driver.ErrLocked) {
		t.Fatal(err)
	}
	kv := entriesOf(t, b.client, b.names.shared("k")+headName).Kvs[0]
	must[*clientv3.LeaseRevokeResponse](t)(b.client.Revoke(t.Context(), clientv3.LeaseID(kv.Lease)))
	must[driver.Grant](t)(tryShared(b, "k", share1("next", permits(1, 2))))

	must[driver.Grant](t)(tryShared(silent, "other", driver.Request{ID: newID("x"), TTL: time.Second, Share: reads}))
	head = asHead(driver.Request{ID: newID("silent"), TTL: time.Second, Share: writes})
	if _, err := tryShared(silent, "k", head); !errors.Is(err, driver.ErrLocked) {
		t.Fatal(err)
	}
	until(t, hung, "the head to be removed", func() bool {
		return entriesOf(t, b.client, b.names.shared("k")+headName).Count == 0
	})
}

// A writer that becomes a reader keeps its token and its slot, and lets no writer in between. Readers come to it.
func TestDowngrade(t *testing.T) {
	srv := testserver.Etcd(t)
	b, other := connect(t, srv.Addr), connect(t, srv.Addr)
	r := share1("a", writes)
	g := must[driver.Grant](t)(tryShared(b, "k", r))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := tryShared(other, "k", share1("w", writes)); !errors.Is(err, driver.ErrLocked) {
					t.Errorf("a writer beside one that became a reader: %v", err)
				}
			}
		})
	}
	r.Share = reads
	down := must[driver.Grant](t)(b.Shared().Renew(t.Context(), "k", r))
	if down.Token != g.Token || down.Slot != g.Slot {
		t.Errorf("downgraded to %+v, from %+v", down, g)
	}
	beside := must[driver.Grant](t)(tryShared(other, "k", share1("r", reads)))
	if beside.Slot != 1 || beside.Token <= g.Token {
		t.Errorf("the reader beside it: %+v", beside)
	}
	r.Share = writes
	if up := must[driver.Grant](t)(b.Shared().Renew(t.Context(), "k", r)); up.Token != g.Token {
		t.Errorf("%+v", up)
	}
	must[driver.Grant](t)(tryShared(b, "k", share1("r", reads)))
	cancel()
	wg.Wait()
	if err := b.Shared().Unlock(t.Context(), "k", r.ID); err != nil {
		t.Error(err)
	}
}

// A slot that a reader tries because it was given it before is the lowest, or is given back: also where one below it has become
// free, or where it is taken, by a reader or by a writer that became one.
func TestGuessedSlot(t *testing.T) {
	srv := testserver.Etcd(t)
	b, other := connect(t, srv.Addr), connect(t, srv.Addr)
	release := func(b *backend, r driver.Request) {
		t.Helper()
		if err := b.Shared().Unlock(t.Context(), "k", r.ID); err != nil {
			t.Fatal(err)
		}
	}
	take := func(b *backend, slot int) driver.Request {
		t.Helper()
		r := share1("r", reads)
		if g := must[driver.Grant](t)(tryShared(b, "k", r)); g.Slot != slot {
			t.Fatalf("slot %d, want %d", g.Slot, slot)
		}
		return r
	}
	guesses := func() bool { return b.shared["k"].steady }
	var held []driver.Request
	for i := range 3 {
		held = append(held, take(other, i))
	}
	for range 4 {
		release(b, take(b, 3))
	}
	if !guesses() {
		t.Fatal("nothing is guessed: the test shows nothing")
	}
	held = append(held, take(other, 3))
	release(b, take(b, 4))
	release(b, take(b, 4))
	if !guesses() {
		t.Fatal("nothing is guessed: the test shows nothing")
	}
	release(other, held[1])
	release(b, take(b, 1))
	if n := len(atStore(t, b, "k")); n != 3 {
		t.Errorf("%d holds, want 3", n)
	}
	release(b, take(b, 1))
	for _, i := range []int{0, 2, 3} {
		release(other, held[i])
	}
	w := share1("w", writes)
	must[driver.Grant](t)(tryShared(other, "k", w))
	if _, err := tryShared(b, "k", share1("r", reads)); !errors.Is(err, driver.ErrLocked) {
		t.Errorf("a guess beside a writer: %v", err)
	}
	w.Share = reads
	must[driver.Grant](t)(other.Shared().Renew(t.Context(), "k", w))
	release(b, take(b, 1))
}

// Another client can renew, release and repeat a hold by its id alone.
func TestSharedHoldByAnotherClient(t *testing.T) {
	srv := testserver.Etcd(t)
	b, other := connect(t, srv.Addr), connect(t, srv.Addr)
	r := share1("a", permits(2, 4))
	g := must[driver.Grant](t)(tryShared(b, "k", r))
	if again := must[driver.Grant](t)(tryShared(other, "k", r)); again.Token != g.Token {
		t.Errorf("repeated by another client: token %d, want %d", again.Token, g.Token)
	}
	r.Share = permits(1, 4)
	third := connect(t, srv.Addr)
	if renewed := must[driver.Grant](t)(third.Shared().Renew(t.Context(), "k", r)); renewed.Token != g.Token {
		t.Errorf("renewed by another client: token %d, want %d", renewed.Token, g.Token)
	}
	if h := must[[]driver.Holder](t)(b.Shared().Holders(t.Context(), "k")); len(h) != 1 || h[0].Weight != 1 {
		t.Errorf("holders %+v", h)
	}
	if err := connect(t, srv.Addr).Shared().Unlock(t.Context(), "k", r.ID); err != nil {
		t.Error(err)
	}
	if err := b.Shared().Unlock(t.Context(), "k", r.ID); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Unlock of what is gone: %v", err)
	}
}

// Four clients of package coord share a semaphore and a read/write lock, with its queue: the bound is kept, everybody has a
// turn, and nothing is left.
func TestSharedThroughTheCore(t *testing.T) {
	srv := testserver.Etcd(t)
	var used, writers, readers atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		c := must[*coord.Client](t)(coord.New(connect(t, srv.Addr)))
		defer c.Close()
		semaphore, rw := c.Semaphore(5), c.ReadWrite()
		for i := range 8 {
			wg.Go(func() {
				for range 4 {
					err := coord.Do(t.Context(), semaphore, "s", func(context.Context) error {
						if n := used.Add(1); n > 5 {
							t.Errorf("%d permits in use", n)
						}
						runtime.Gosched()
						used.Add(-1)
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
			wg.Go(func() {
				if i > 0 {
					err := coord.Do(t.Context(), rw.Read(), "rw", func(context.Context) error {
						readers.Add(1)
						defer readers.Add(-1)
						if writers.Load() > 0 {
							t.Error("a reader beside a writer")
						}
						return nil
					})
					if err != nil {
						t.Error(err)
					}
					return
				}
				err := coord.Do(t.Context(), rw.Write(), "rw", func(context.Context) error {
					writers.Add(1)
					defer writers.Add(-1)
					if readers.Load() > 0 {
						t.Error("a writer beside a reader")
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	left := must[*clientv3.GetResponse](t)(raw(t, srv.Addr).Get(t.Context(), "coord/shared/", clientv3.WithPrefix()))
	for _, kv := range left.Kvs {
		t.Errorf("left: %s = %s", kv.Key, kv.Value)
	}
}
