package limitmodel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/observe"
)

// trip is the longest that a call on a far store takes, and answered the longest between
// the call that grants a permit and its use, if the permit was not taken in advance.
const (
	trip     = 2 * time.Millisecond
	answered = 3 * trip
)

// far is a store in this process that clients take for one on another host.
type far struct {
	driver.Backend
	// debits is how much of a request of AllowAll is debited, in percent: a mistake where it is not 100.
	debits int
	// single hides that it takes several limits in one step.
	single bool
}

// errLost is a call that was made, and whose reply was lost.
var errLost = errors.New("the reply was lost")

// lost loses one reply of a hundred.
func lost[T any](v T, err error) (T, error) {
	if err == nil && rand.IntN(100) == 0 {
		return *new(T), errLost
	}
	return v, err
}

func (f far) Info() driver.Info {
	info := f.Backend.Info()
	info.Claims = slices.DeleteFunc(slices.Clone(info.Claims), func(c driver.Claim) bool {
		return c == driver.ScopeProcess || f.single && c == driver.AtomicMulti
	})
	info.Claims = append(info.Claims, driver.ScopeHosts)
	return info
}

// travel takes half of a round trip.
func travel() { time.Sleep(rand.N(trip / 2)) }

func (f far) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	return driver.One(f.Take(ctx, key, l, []driver.Ask{a}))
}

func (f far) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	travel()
	defer travel()
	return lost(f.Backend.Take(ctx, key, l, asks))
}

func (f far) Reset(ctx context.Context, key string, l driver.Limit) error {
	_, err := lost(0, f.Backend.Reset(ctx, key, l))
	return err
}

func (f far) Refund(ctx context.Context, key string, l driver.Limit, id string, n int) error {
	travel()
	defer travel()
	_, err := lost(0, f.Backend.Refund(ctx, key, l, id, n))
	return err
}

func (f far) TakeAll(ctx context.Context, demands []driver.Demand) ([]driver.Taken, error) {
	travel()
	defer travel()
	asked := slices.Clone(demands)
	for i := range asked {
		asked[i].N = asked[i].N * f.debits / 100
	}
	taken, err := f.Backend.TakeAll(ctx, asked)
	for i := range taken {
		if taken[i].Asks[0].N == asked[i].N {
			taken[i].Asks[0].N = demands[i].N
		}
	}
	return lost(taken, err)
}

// ahead is for how long permits are taken in advance.
const ahead = 100 * time.Millisecond

// clientWalk is clients whose goroutines ask limits of the same keys in all ways.
type clientWalk struct {
	limits []coord.Limit
	leased bool // clients take permits in advance
	pause  time.Duration

	mu       sync.Mutex
	accounts []*account
	resets   map[*account]time.Time // until when permits may be of before a Reset
	start    time.Time
	spent    int
	failed   error
	leases   atomic.Int64
}

// had takes in permits of l that were had by a call that began at sent, and has returned now.
func (w *clientWalk) had(key string, l driver.Limit, n int, sent time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l, _ = l.Normal()
	var a *account
	for _, of := range w.accounts {
		if of.key == key && shares(of.of, l) {
			a = of
		}
	}
	if a == nil {
		a = newAccount(key, l)
		w.accounts = append(w.accounts, a)
	}
	// A window's permits keep its bound whenever they are spent, and a bucket's when they are granted.
	span := answered
	if w.leased && l.Algorithm == driver.TokenBucket {
		span += ahead
	}
	from := time.Since(w.start) - span
	if !w.leased {
		from = max(from, sent.Sub(w.start))
	}
	u := &use{from: from.Microseconds(), to: (from + span).Microseconds(), limit: l, n: int64(n), window: -1, late: true}
	if per := l.Per.Microseconds(); l.Algorithm == driver.FixedWindow && (w.start.UnixMicro()+u.from)/per == (w.start.UnixMicro()+u.to)/per {
		u.window = (w.start.UnixMicro() + u.from) / per
	}
	w.spent += n
	if !sent.After(w.resets[a]) {
		return
	}
	// Uses may come in out of order by as much as a call takes.
	if err := a.grant(u, u.from-time.Second.Microseconds()); err != nil && w.failed == nil {
		w.failed = err
	}
}

// steps makes calls of one goroutine.
func (w *clientWalk) steps(ctx context.Context, c *coord.Client, rnd *rand.Rand, steps int) {
	for range steps {
		if rnd.IntN(4) == 0 {
			time.Sleep(time.Duration(rnd.Int64N(int64(w.pause))))
		}
		if err := w.step(ctx, c, rnd); err != nil && !(errors.Is(err, errLost) && errors.Is(err, coord.ErrUnknownOutcome)) {
			w.mu.Lock()
			w.failed = errors.Join(w.failed, err)
			w.mu.Unlock()
			return
		}
	}
}

func (w *clientWalk) step(ctx context.Context, c *coord.Client, rnd *rand.Rand) error {
	key, l := fmt.Sprint(rnd.IntN(2)), w.limits[rnd.IntN(len(w.limits))]
	sent := time.Now()
	if rnd.IntN(500) == 0 {
		return w.reset(ctx, c, key, l)
	}
	switch rnd.IntN(8) {
	case 0:
		return w.wait(ctx, c, rnd, key, l)
	case 1:
		return w.all(ctx, c, rnd)
	case 2:
		r, err := c.AllowAtMost(ctx, key, l, 1+rnd.IntN(9))
		if r.Granted > 0 {
			w.had(key, l, r.Granted, sent)
		}
		return err
	}
	r, err := c.Allow(ctx, key, l)
	if r.Allowed {
		w.had(key, l, 1, sent)
	}
	return err
}

// reset forgets an account. What a call that began before has, and permits that others have taken in advance or
// reserved, may be of the time before it.
func (w *clientWalk) reset(ctx context.Context, c *coord.Client, key string, l coord.Limit) error {
	err := c.Reset(ctx, key, l)
	w.mu.Lock()
	defer w.mu.Unlock()
	l, _ = l.Normal()
	w.accounts = slices.DeleteFunc(w.accounts, func(a *account) bool { return a.key == key && shares(a.of, l) })
	a := newAccount(key, l)
	w.accounts = append(w.accounts, a)
	w.resets[a] = time.Now().Add(2 * ahead)
	return err
}

// wait waits, and mostly gives up before it is its turn.
func (w *clientWalk) wait(ctx context.Context, c *coord.Client, rnd *rand.Rand, key string, l coord.Limit) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if rnd.IntN(2) == 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rnd.Int64N(int64(l.Per))))
		defer cancel()
	}
	time.AfterFunc(time.Duration(rnd.Int64N(int64(l.Per))), cancel)
	n, sent := 1+rnd.IntN(3), time.Now()
	switch err := c.WaitN(ctx, key, l, n); {
	case err == nil:
		w.had(key, l, n, sent)
	case !errors.Is(err, coord.ErrLimited) && ctx.Err() == nil:
		return err
	}
	return nil
}

// all takes permits of several limits, of which no two are of one account.
func (w *clientWalk) all(ctx context.Context, c *coord.Client, rnd *rand.Rand) error {
	var demands []coord.Demand
	for range 2 + rnd.IntN(3) {
		d := coord.Demand{Key: fmt.Sprint(rnd.IntN(2)), Limit: w.limits[rnd.IntN(len(w.limits))], N: 2 * rnd.IntN(3)}
		l, _ := d.Limit.Normal()
		if !slices.ContainsFunc(demands, func(o coord.Demand) bool {
			ol, _ := o.Limit.Normal()
			return o.Key == d.Key && shares(ol, l)
		}) {
			demands = append(demands, d)
		}
	}
	sent := time.Now()
	results, err := c.AllowAll(ctx, demands...)
	for i, r := range results {
		if r.Allowed && r.Granted > 0 {
			w.had(demands[i].Key, demands[i].Limit, r.Granted, sent)
		}
	}
	return err
}

// finish counts what is not counted yet, and asks whether all permits come back.
func (w *clientWalk) finish(ctx context.Context, c *coord.Client) error {
	time.Sleep(10 * time.Minute) // each limit is whole after that: at most 1004 permits, at 4/s
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.accounts {
		if err := a.pass(time.Since(w.start).Microseconds()); err != nil && w.failed == nil {
			w.failed = err
		}
	}
	for _, l := range w.limits {
		for _, key := range []string{"0", "1"} {
			r, err := c.Peek(ctx, key, l)
			for errors.Is(err, errLost) {
				r, err = c.Peek(ctx, key, l)
			}
			if err != nil {
				return err
			}
			if normal, _ := l.Normal(); r.Remaining != normal.Max() {
				w.failed = errors.Join(w.failed, fmt.Errorf("%q %v: %d remain after all was given back, want %d: R2", key, l, r.Remaining, normal.Max()))
			}
		}
	}
	return w.failed
}

// walkClients lets clients of one store make so many calls, and gives the first breach of the contract,
// and how many leases there were.
func walkClients(t *testing.T, steps int, seed uint64, debits int) (leases int, failed error) {
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		most := []int{10, 100, 1000}[seed/2%3]
		rate := 4 + rnd.IntN(most)
		w := &clientWalk{start: time.Now(), leased: seed%2 == 0, pause: 2 * time.Second / time.Duration(most), resets: make(map[*account]time.Time)}
		for range 2 {
			w.limits = append(w.limits,
				coord.Limit{Rate: 4 + rnd.IntN(most), Per: time.Second},
				coord.Limit{Rate: 4 + rnd.IntN(most), Per: time.Second, Algorithm: coord.FixedWindow},
				coord.Limit{Rate: rate, Per: time.Second, Burst: 4 + rnd.IntN(most)})
		}
		w.limits = append(w.limits, coord.Limit{Rate: 4 + rnd.IntN(most), Per: 2 * time.Second})
		opts := []coord.Option{
			coord.WithLogger(slog.New(slog.DiscardHandler)), coord.WithBestEffort(),
			coord.WithObserver(observe.Observer{LeaseEnded: func(context.Context, observe.LeaseEnded) { w.leases.Add(1) }}),
		}
		if w.leased {
			opts = append(opts, coord.WithPermitLease(coord.PermitLease{For: ahead, Lessees: 2}))
		}
		store := memory.NewStore()
		var clients []*coord.Client
		var wg sync.WaitGroup
		const goroutines = 6
		for i := range 3 {
			c, err := coord.New(far{store.Open(), debits, seed/6%2 == 1}, opts...)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			clients = append(clients, c)
			for j := range goroutines {
				own := rand.New(rand.NewPCG(seed, uint64(10*i+j+2)))
				wg.Go(func() { w.steps(t.Context(), c, own, steps/(3*goroutines)) })
			}
		}
		wg.Wait()
		failed = w.finish(t.Context(), clients[0])
		t.Logf("seed %d: %d permits, %d leases, %d accounts", seed, w.spent, w.leases.Load(), len(w.accounts))
		leases += int(w.leases.Load())
	})
	return leases, failed
}

// However goroutines of several clients ask, wait, give up, reset and take in advance, and replies are lost: each
// limit keeps its bound, and all permits come back.
func TestClientsKeepToTheModel(t *testing.T) {
	const walk = 2000
	n, leases := max(*steps, 12*walk), 0
	for i := range uint64(n / walk) {
		some, err := walkClients(t, walk, *seed+i, 100)
		if err != nil {
			t.Fatalf("seed %d: %v", *seed+i, err)
		}
		leases += some
	}
	if leases == 0 {
		t.Error("nothing was taken in advance: the walk shows nothing of it")
	}
}

// The walk finds an AllowAll that debits half of what it grants.
func TestClientWalkFinds(t *testing.T) {
	for seed := range uint64(20) {
		if _, err := walkClients(t, 2000, seed, 50); err != nil && strings.Contains(err.Error(), "R1") {
			return
		}
	}
	t.Error("nothing was found")
}
