// Package crowd has many clients, holds and permits at one store. It judges by counts alone: a busy machine makes a crowd
// slow, and no test fail.
package crowd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/observe"
)

const (
	// hung is from when on a crowd that gets nowhere is held to be stuck.
	hung = 5 * time.Minute
	// Lasting is the shortest lease that no busy machine lets end.
	Lasting = 30 * time.Second
	// brief is a lease that is renewed within a few seconds.
	brief = 9 * time.Second
	// atOnce is how many calls that take a hold or give it back are under way.
	atOnce = 16
)

// Open gives another client of the same store.
type Open func() driver.Backend

// Size is how large crowds are: clients that wait for one key, keys that one client holds, and permits of one key. There is
// no crowd of 0.
type Size struct{ Waiters, Holds, Permits int }

// Small crowds take a few seconds.
var Small = Size{Waiters: 50, Holds: 2_000, Permits: 16}

// Large crowds are for nights.
var Large = Size{Waiters: 500, Holds: 20_000, Permits: 64}

// Run has crowds at stores that are made for them. session is the lease of a store whose clients have one lease for all
// holds, 0 for the shortest that a machine can keep.
func (s Size) Run(t *testing.T, store func(t *testing.T, session time.Duration) Open) {
	run := func(name string, n int, session time.Duration, crowd func(*testing.T, Open, int)) {
		if n == 0 {
			return
		}
		t.Run(name, func(t *testing.T) {
			if s == Small {
				t.Parallel() // it mostly waits
			}
			crowd(t, store(t, session), n)
		})
	}
	run("waiters", s.Waiters, Lasting, Waiters)
	run("permits", s.Permits, 0, func(t *testing.T, open Open, n int) { Permits(t, open, n, 0) })
	if s == Small {
		run("holds", s.Holds, brief, func(t *testing.T, open Open, n int) { Holds(t, open, n, brief) })
		return
	}
	run("holds", s.Holds, Lasting, func(t *testing.T, open Open, n int) { Holds(t, open, n, Lasting) })
	run("lasting permits", s.Permits, Lasting, func(t *testing.T, open Open, n int) { Permits(t, open, n, Lasting) })
}

func (open Open) client(t *testing.T, o observe.Observer) *coord.Client {
	t.Helper()
	c, err := coord.New(open(), coord.WithObserver(o), coord.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Waiters has n clients wait for one key, and its holder renew at each that comes and then hand it on. No renewal fails; each
// waiter is granted the key once, and alone, with a greater token than those before it; where the store is fair, in the order
// in which they came, but for those whose places have ended.
func Waiters(t *testing.T, open Open, n int) {
	t.Helper()
	var q line
	defer q.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	store := open()
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	opts := []coord.LockOption{coord.TTL(Lasting)}
	fair := store.Info().Claims.Has(driver.Fair)
	if fair {
		opts = append(opts, coord.Fair())
	}
	holder := driver.Request{ID: driver.FormatID("holder", os.Getpid(), time.Now(), [16]byte{1}), TTL: max(Lasting, store.Info().MinTTL)}
	granted, err := store.TryLock(ctx, "k", holder)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		waits := make(chan struct{})
		c := open.client(t, observe.Observer{WaitBegan: func(context.Context, observe.WaitBegan) { close(waits) }})
		q.Go(func() {
			if err := q.pass(ctx, t, c, i, opts); err != nil {
				fail(fmt.Errorf("waiter %d of %d: %w", i, n, err))
			}
		})
		select {
		case <-waits:
		case <-ctx.Done():
		}
		if err := placed(ctx, store, i+1); err != nil {
			t.Fatalf("waiter %d of %d has no place: %v", i, n, err)
		}
		if g, err := store.Renew(ctx, "k", holder); err != nil || g.Token != granted.Token {
			t.Fatalf("the holder's renewal beside %d waiters: %+v, %v", i+1, g, err)
		}
	}
	start := time.Now()
	if err := store.Unlock(ctx, "k", holder.ID); err != nil {
		t.Fatalf("the holder: %v", err)
	}
	q.Wait()
	if err := context.Cause(ctx); err != nil {
		t.Fatal(err)
	}
	if len(q.order) != n {
		t.Errorf("%d waiters were granted the key: want %d", len(q.order), n)
	}
	overtaken := 0
	for i := 1; i < len(q.order); i++ {
		if q.order[i] < q.order[i-1] {
			overtaken++
		}
	}
	if fair && overtaken > n/10 { // a machine that does not run a client for a second costs it its place; a lottery has n/2
		t.Errorf("%d of %d waiters were granted the key after one that came later: %v", overtaken, n, q.order)
	}
	t.Logf("%d hand-overs, %.0f a second", len(q.order), float64(len(q.order))/time.Since(start).Seconds())
}

// placed waits until a store that keeps a queue has so many waiters in it.
func placed(ctx context.Context, store driver.Backend, n int) error {
	for store.Info().Claims.Has(driver.Fair) && ctx.Err() == nil {
		h, err := store.Inspect(ctx, "k")
		if err != nil || h.Waiters >= n {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return context.Cause(ctx)
}

// line is those who want one key.
type line struct {
	sync.WaitGroup
	mu     sync.Mutex
	inside int
	last   coord.Token
	order  []int // in which they were granted it
}

// pass waits for the key and hands it on.
func (q *line) pass(ctx context.Context, t *testing.T, c *coord.Client, i int, opts []coord.LockOption) error {
	l, err := c.Lock(ctx, "k", opts...)
	if err != nil {
		return err
	}
	q.mu.Lock()
	if q.inside++; q.inside > 1 {
		t.Errorf("waiter %d has the key beside %d others", i, q.inside-1)
	}
	if l.Token() <= q.last {
		t.Errorf("waiter %d has the token %d, after %d", i, l.Token(), q.last)
	}
	q.last, q.order = l.Token(), append(q.order, i)
	q.mu.Unlock()
	runtime.Gosched()
	q.mu.Lock()
	q.inside--
	q.mu.Unlock()
	return unlock(ctx, l)
}

// unlock gives l back. What is not confirmed in time is done in the background.
func unlock(ctx context.Context, l *coord.Lock) error {
	if err := l.Unlock(ctx); !errors.Is(err, coord.ErrUnavailable) {
		return err
	}
	return nil
}

// Holds has one client hold n keys.
func Holds(t *testing.T, open Open, n int, ttl time.Duration) {
	t.Helper()
	k := keep{ttl: ttl}
	c := open.client(t, k.observer(t))
	k.all(t, n, func(ctx context.Context, i int) (*coord.Lock, error) {
		return c.Lock(ctx, strconv.Itoa(i), coord.TTL(ttl))
	})
}

// Permits has eight clients hold all n permits of a key, each for ttl; 0 is twice the store's shortest lease.
func Permits(t *testing.T, open Open, n int, ttl time.Duration) {
	t.Helper()
	k := keep{ttl: ttl}
	var of []*coord.Shared
	for range 8 {
		c := open.client(t, k.observer(t))
		if ttl == 0 {
			k.ttl = 2 * c.Info().MinTTL
		}
		of = append(of, c.Semaphore(n))
	}
	k.all(t, n, func(ctx context.Context, i int) (*coord.Lock, error) {
		return of[i%len(of)].Lock(ctx, "k", coord.TTL(k.ttl))
	})
}

// keep keeps many holds until each of them has been renewed. None is lost, and no renewal fails, but for one: a lease shorter
// than [Lasting] may end before this process, or the server's, has had its turn. Who holds it takes it again.
type keep struct {
	ttl     time.Duration
	renewed sync.Map      // keys and tokens of holds, to a channel that has something when the hold has been renewed
	late    atomic.Int64  // holds whose lease has ended
	gate    chan struct{} // has something for each hold that is being taken, or given back
	enough  chan struct{} // closed when each hold has been renewed
}

// ends reports whether a lease may end here.
func (k *keep) ends() bool { return k.ttl < Lasting }

// renewal is told that a hold has been renewed.
func (k *keep) renewal(key string, token coord.Token) chan struct{} {
	ch, _ := k.renewed.LoadOrStore(fmt.Sprint(key, " ", token), make(chan struct{}, 1))
	return ch.(chan struct{})
}

func (k *keep) observer(t *testing.T) observe.Observer {
	return observe.Observer{
		Renewed: func(_ context.Context, e observe.Renewed) {
			select {
			case k.renewal(e.Key, e.Token) <- struct{}{}:
			default:
			}
		},
		RenewFailed: func(_ context.Context, e observe.RenewFailed) {
			outOfTime := e.Left <= 0 || errors.Is(e.Err, context.DeadlineExceeded) || errors.Is(e.Err, os.ErrDeadlineExceeded)
			if !k.ends() || !outOfTime {
				t.Errorf("a renewal of %q, %v before the end: %v", e.Key, e.Left, e.Err)
			}
		},
	}
}

// all keeps n holds. take gives the i-th, each time another.
func (k *keep) all(t *testing.T, n int, take func(context.Context, int) (*coord.Lock, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	k.gate, k.enough = make(chan struct{}, atOnce), make(chan struct{})
	var renewals, holders sync.WaitGroup
	renewals.Add(n)
	start := time.Now()
	for i := range n {
		holders.Go(func() {
			done := sync.OnceFunc(renewals.Done)
			defer done()
			for again := true; again; {
				k.gate <- struct{}{}
				l, err := take(ctx, i)
				<-k.gate
				switch {
				case err == nil:
					again, err = k.one(ctx, l, done)
				case k.ends() && errors.Is(err, coord.ErrUnavailable) && ctx.Err() == nil:
					k.late.Add(1) // its lease was over before it was here
					err = nil
				}
				if err != nil {
					fail(fmt.Errorf("hold %d of %d: %w", i, n, err))
					return
				}
			}
		})
	}
	renewals.Wait()
	t.Logf("%d holds, %d of them ended and were taken again, each renewed after %v", n, k.late.Load(), time.Since(start).Round(time.Millisecond))
	close(k.enough)
	holders.Wait()
	if err := context.Cause(ctx); err != nil {
		t.Error(err)
	}
	fail(nil)
}

// one keeps a hold until all have been renewed. It calls renewed when this one has, and gives whether it has to be taken again.
func (k *keep) one(ctx context.Context, l *coord.Lock, renewed func()) (again bool, err error) {
	again = true
	wanted := k.renewal(l.Key(), l.Token())
	defer k.renewed.Delete(fmt.Sprint(l.Key(), " ", l.Token()))
	enough := (<-chan struct{})(nil)
	for {
		select {
		case <-wanted:
			renewed()
			again, wanted, enough = false, nil, k.enough
		case <-enough:
			k.gate <- struct{}{}
			err := unlock(ctx, l)
			<-k.gate
			if errors.Is(err, coord.ErrLost) && k.ends() && !time.Now().Before(l.Deadline()) {
				err = nil
			}
			return false, err
		case <-l.Done():
			err := l.Err()
			if k.ends() && !time.Now().Before(l.Deadline()) {
				k.late.Add(1)
				err = nil
			}
			if unlock := l.Unlock(ctx); !errors.Is(unlock, coord.ErrLost) {
				err = errors.Join(err, fmt.Errorf("unlock of a hold that was lost: %w", unlock))
			}
			return again, err
		case <-ctx.Done():
			return false, errors.Join(errors.New("it is not renewed"), l.Unlock(ctx))
		}
	}
}
