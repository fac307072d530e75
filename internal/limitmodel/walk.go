package limitmodel

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/coordgo/coord/driver"
)

// Walk is a random walk through the limits of a store.
type Walk struct {
	Store driver.Limiter
	Steps int
	Seed  uint64
	// Now reads the store's clock. Pass lets time pass on it. Back, if there is one,
	// sets it back; what follows counts by the time that has passed.
	Now  func() time.Time
	Pass func(time.Duration)
	Back func(time.Duration)
	// Still tells that the clock stands still between calls, so that answers are exact.
	Still bool
	// Blur is how far the store may be from Now.
	Blur time.Duration
	// Per is the shortest period of a limit. Periods are up to five times as long.
	Per time.Duration
	// Fresh lets the walk begin again on other keys after so many steps; 0: 2000.
	Fresh int
}

// refundable is a grant that may be given back.
type refundable struct {
	acc   *account
	limit driver.Limit
	id    string
	use   *use
	backs int
}

// walker is a Walk under way.
type walker struct {
	Walk
	ctx      context.Context
	rnd      *rand.Rand
	round    int
	limits   []driver.Limit
	accounts []*account
	grants   []refundable
	ids      int
	back     time.Duration // by how much the clock was set back in all
	backs    int
	start    time.Time
	wait     time.Duration
	log      []string
}

// Run makes the walk, and gives the first breach of the contract, with the steps before it.
func (w Walk) Run(ctx context.Context) error {
	r := &walker{Walk: w, ctx: ctx, rnd: rand.New(rand.NewPCG(w.Seed, 0)), start: w.Now()}
	if r.Fresh == 0 {
		r.Fresh = 2000
	}
	for i := range w.Steps {
		if i%r.Fresh == 0 {
			r.renew()
		}
		if err := r.step(); err != nil {
			return fmt.Errorf("seed %d, step %d: %w\n%s", w.Seed, i, err, strings.Join(r.log, "\n"))
		}
	}
	return nil
}

// renew draws limits and forgets the keys.
func (r *walker) renew() {
	r.round++
	r.accounts, r.grants, r.wait = nil, nil, 0
	per := r.Per + time.Duration(r.rnd.Int64N(int64(4*r.Per)))/time.Microsecond*time.Microsecond
	rate := 1 + r.rnd.IntN(20)
	of := func(l driver.Limit) { r.limits = append(r.limits, l) }
	r.limits = r.limits[:0]
	for range 3 {
		of(driver.Limit{Rate: 1 + r.rnd.IntN(20), Per: per, Algorithm: driver.SlidingWindow})
		of(driver.Limit{Rate: 1 + r.rnd.IntN(20), Per: per, Algorithm: driver.FixedWindow})
		of(driver.Limit{Rate: rate, Per: per, Burst: 1 + r.rnd.IntN(30), Algorithm: driver.TokenBucket})
	}
	of(driver.Limit{Rate: 2 * rate, Per: 2 * per, Burst: 1 + r.rnd.IntN(30), Algorithm: driver.TokenBucket}) // the same rate
	of(driver.Limit{Rate: 1 + r.rnd.IntN(20), Per: per / 2 / time.Microsecond * time.Microsecond, Algorithm: driver.SlidingWindow})
	of(driver.Limit{Rate: 10 * rate, Per: per, Burst: 1 + r.rnd.IntN(30), Algorithm: driver.TokenBucket})
}

func (r *walker) limit() driver.Limit { return r.limits[r.rnd.IntN(len(r.limits))] }

func (r *walker) key() string { return fmt.Sprintf("walk %d %d %d", r.Seed, r.round, r.rnd.IntN(2)) }

// account finds the account of a limit under a key.
func (r *walker) account(key string, l driver.Limit) *account {
	for _, a := range r.accounts {
		if a.key == key && shares(a.of, l) {
			return a
		}
	}
	a := newAccount(key, l)
	r.accounts = append(r.accounts, a)
	return a
}

// passed is the time that has passed, whatever was done to the clock.
func (r *walker) passed() int64 { return (r.Now().Sub(r.start) + r.back).Microseconds() }

func (r *walker) note(format string, args ...any) {
	if len(r.log) == 40 {
		r.log = r.log[1:]
	}
	r.log = append(r.log, fmt.Sprintf("%12d ", r.passed())+fmt.Sprintf(format, args...))
}

func (r *walker) step() error {
	switch n := r.rnd.IntN(100); {
	case n < 50:
		return r.take()
	case n < 60:
		return r.takeAll()
	case n < 70:
		return r.refund()
	case n < 71:
		return r.reset()
	case n < 73:
		return r.remains()
	case n < 75:
		return r.denied()
	case n < 79:
		return r.charge()
	case n < 80 && r.Back != nil:
		d := time.Duration(r.rnd.Int64N(int64(r.Per)))
		if r.rnd.IntN(4) == 0 {
			d += 24 * time.Hour
		}
		r.note("the clock goes back by %v", d)
		r.Back(d)
		r.back += d
		r.backs++
	default:
		r.pass()
	}
	return nil
}

// pass lets time pass, mostly for as long as something happens.
func (r *walker) pass() {
	d := time.Duration(0)
	switch r.rnd.IntN(8) {
	case 0, 1, 2, 3:
		d = time.Duration(r.rnd.Int64N(int64(r.Per)/20 + 1))
	case 4:
		d = time.Duration(r.rnd.Int64N(int64(r.Per)))
	case 5:
		d = min(r.wait, 3*r.Per)
	case 6:
		d = min(max(0, r.wait-time.Microsecond), 3*r.Per)
	}
	r.Pass(d)
}

// ask draws a request of l.
func (r *walker) ask(l driver.Limit) driver.Ask {
	n := r.rnd.IntN(l.Max() + 1)
	if r.rnd.IntN(2) == 0 {
		n = min(n, 2)
	}
	a := driver.Ask{N: n, Min: r.rnd.IntN(n + 1)}
	if l.Algorithm == driver.TokenBucket && r.rnd.IntN(3) == 0 {
		a.MaxDelay = time.Duration(r.rnd.Int64N(int64(2 * r.Per)))
	}
	if r.rnd.IntN(2) == 0 || a.MaxDelay > 0 {
		r.ids++
		a.ID = fmt.Sprintf("%d-%d", r.Seed, r.ids)
	}
	return a
}

// asks makes one call, and takes in what it granted.
func (r *walker) asks(key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	before, clock := r.passed(), r.Now()
	t, err := r.Store.Take(r.ctx, key, l, asks)
	if err != nil {
		return t, fmt.Errorf("take: %w", err)
	}
	r.note("%q %v: %+v: %+v", key, l, asks, t)
	if len(t.Asks) != len(asks) {
		return t, fmt.Errorf("%d answers to %d asks", len(t.Asks), len(asks))
	}
	for i, g := range t.Asks {
		if err := r.granted(key, l, asks[i], g, before, clock); err != nil {
			return t, err
		}
	}
	return t, nil
}

// granted takes in the answer to one request.
func (r *walker) granted(key string, l driver.Limit, a driver.Ask, g driver.Granted, before int64, clock time.Time) error {
	switch {
	case g.N == 0 && g.RetryAfter > 0:
		r.wait = g.RetryAfter
		return nil
	case g.N == 0:
		return nil
	case g.N > a.N || g.N < a.Min || g.Delay > a.MaxDelay:
		return fmt.Errorf("%+v answers %+v", g, a)
	}
	acc, blur := r.account(key, l), r.Blur.Microseconds()
	u := r.use(acc, l, g.N, before, clock)
	later := g.Delay.Microseconds()
	if later == 0 && a.ID == "" && r.rnd.IntN(4) == 0 { // R7
		later, u.late = max(0, g.ValidFor.Microseconds()-1), true
	}
	u.from, u.to = u.from+later, u.to+later
	if a.ID != "" {
		r.grants = append(r.grants, refundable{acc, l, a.ID, u, r.backs})
		if len(r.grants) > 30 {
			r.grants = r.grants[1:]
		}
	}
	return acc.grant(u, before-blur)
}

// use is n permits of a call that was made when the clock showed that.
func (r *walker) use(acc *account, l driver.Limit, n int, before int64, clock time.Time) *use {
	blur := r.Blur.Microseconds()
	u := &use{from: before - blur, to: r.passed() + blur, limit: l, n: int64(n), window: -1}
	if l.Algorithm == driver.FixedWindow {
		// The account's time does not run back. It is not certain after a refund, which may
		// have moved it, nor when the clock is so far back that the store need not wait for it.
		at, per := clock.UnixMicro(), l.Per.Microseconds()
		uncertain := at < acc.touched || at < acc.ratchet-time.Minute.Microseconds()
		acc.ratchet = max(acc.ratchet, at)
		if w := (acc.ratchet - blur) / per; !uncertain && w == (max(acc.ratchet, r.Now().UnixMicro())+blur)/per {
			u.window = w
		}
	}
	return u
}

// charge charges permits whatever is left, or gives some back: R10.
func (r *walker) charge() error {
	s := r.Store
	key, l := r.key(), r.limit()
	n := r.rnd.IntN(2*l.Max()) + 1
	if r.rnd.IntN(2) == 0 {
		n = -1 - r.rnd.IntN(3)
	}
	before, clock := r.passed(), r.Now()
	got, err := s.Charge(r.ctx, key, l, n)
	if errors.Is(err, driver.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("charge: %w", err)
	}
	r.note("%q %v: charge %d: %+v", key, l, n, got)
	if r.rnd.IntN(2) == 0 && got.RetryAfter > 0 {
		r.wait = got.RetryAfter
	}
	if err := r.charged(key, l, n, before, clock); err != nil || !r.Still {
		return err
	}
	seen, err := r.asks(key, l, []driver.Ask{{}})
	if err != nil {
		return err
	}
	if want := (driver.Charged{Remaining: seen.Remaining, RetryAfter: seen.Asks[0].RetryAfter, ResetAfter: seen.ResetAfter}); got != want {
		return fmt.Errorf("%q %v: charge %d answers %+v, and a peek after it sees %+v: R10", key, l, n, got, want)
	}
	return nil
}

// charged takes in a charge of a call that was made when the clock showed that.
func (r *walker) charged(key string, l driver.Limit, n int, before int64, clock time.Time) error {
	acc := r.account(key, l)
	u := &use{from: before - r.Blur.Microseconds(), to: r.passed() + r.Blur.Microseconds(), limit: l, n: int64(n), window: -1}
	if n > 0 {
		u = r.use(acc, l, n, before, clock)
	} else { // it may have moved the account's time, or found nothing to give back
		acc.touched = max(acc.touched, r.Now().UnixMicro())
	}
	u.charge = true
	return acc.charge(u, before-r.Blur.Microseconds())
}

func (r *walker) take() error {
	l := r.limit()
	asks := []driver.Ask{r.ask(l)}
	for r.rnd.IntN(5) == 0 {
		asks = append(asks, r.ask(l))
	}
	_, err := r.asks(r.key(), l, asks)
	return err
}

// takeAll takes several limits at once, of which no two are of one account.
func (r *walker) takeAll() error {
	m := r.Store
	var demands []driver.Demand
	for range 2 + r.rnd.IntN(3) {
		d := driver.Demand{Key: r.key(), Limit: r.limit()}
		d.N = r.rnd.IntN(min(d.Limit.Max(), 4) + 1)
		if !slices.ContainsFunc(demands, func(o driver.Demand) bool { return o.Key == d.Key && shares(o.Limit, d.Limit) }) {
			demands = append(demands, d)
		}
	}
	before, clock := r.passed(), r.Now()
	taken, err := m.TakeAll(r.ctx, demands)
	if errors.Is(err, driver.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("take all: %w", err)
	}
	r.note("%+v: %+v", demands, taken)
	if len(taken) != len(demands) {
		return fmt.Errorf("%d answers to %d demands", len(taken), len(demands))
	}
	for i, t := range taken { // one that is not met denies all
		if len(t.Asks) != 1 {
			return fmt.Errorf("%d answers to a demand", len(t.Asks))
		}
		if t.Asks[0].N != demands[i].N {
			return nil
		}
	}
	for i, t := range taken {
		d := demands[i]
		if err := r.granted(d.Key, d.Limit, driver.Ask{Min: d.N, N: d.N}, t.Asks[0], before, clock); err != nil {
			return err
		}
	}
	return nil
}

// refund gives back something that was granted, and is not used, or was given back before.
func (r *walker) refund() error {
	s := r.Store
	if len(r.grants) == 0 {
		return nil
	}
	g := r.grants[r.rnd.IntN(len(r.grants))]
	if g.backs != r.backs {
		return nil // the store cannot know that the permits are due
	}
	n := 1 + r.rnd.IntN(3)
	before := r.passed()
	err := s.Refund(r.ctx, g.acc.key, g.limit, g.id, n)
	if errors.Is(err, driver.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("refund: %w", err)
	}
	g.acc.touched = max(g.acc.touched, r.Now().UnixMicro())
	r.note("%q %v: refund %d of %s", g.acc.key, g.limit, n, g.id)
	// What was due is spent. The second time nothing is given back.
	if g.limit.Algorithm != driver.TokenBucket || slices.Contains(g.acc.pending, g.use) && g.use.to > before {
		g.use.n -= min(g.use.n, int64(n))
	}
	for i := range r.grants {
		if r.grants[i].use == g.use {
			r.grants[i].use = &use{}
		}
	}
	return nil
}

func (r *walker) reset() error {
	key, l := r.key(), r.limit()
	if err := r.Store.Reset(r.ctx, key, l); err != nil {
		return fmt.Errorf("reset: %w", err)
	}
	r.note("%q %v: reset", key, l)
	r.accounts = slices.DeleteFunc(r.accounts, func(a *account) bool { return a.key == key && shares(a.of, l) })
	return nil
}

// remains takes what is said to remain.
func (r *walker) remains() error {
	key, l := r.key(), r.limit()
	t, err := r.asks(key, l, nil)
	if err != nil || !r.Still || t.Remaining == 0 {
		return err
	}
	all := t.Remaining
	if t, err = r.asks(key, l, []driver.Ask{{Min: all, N: all}}); err == nil && t.Asks[0].N != all {
		return fmt.Errorf("%q %v: %d remain, and are denied", key, l, all)
	}
	return err
}

// denied comes back when a denial says so, and a little before.
func (r *walker) denied() error {
	key, l := r.key(), r.limit()
	n := 1 + r.rnd.IntN(l.Max())
	ask := []driver.Ask{{Min: n, N: n}}
	t, err := r.asks(key, l, ask)
	if err != nil || !r.Still || t.Asks[0].N > 0 {
		return err
	}
	wait := t.Asks[0].RetryAfter
	if wait <= 0 {
		return errors.New("a denial without a RetryAfter")
	}
	r.Pass(wait - time.Microsecond)
	if t, err = r.asks(key, l, ask); err != nil {
		return err
	}
	if t.Asks[0].N > 0 {
		return fmt.Errorf("%q %v: granted before its RetryAfter of %v: R2", key, l, wait)
	}
	r.Pass(time.Microsecond)
	if t, err = r.asks(key, l, ask); err == nil && t.Asks[0].N == 0 {
		return fmt.Errorf("%q %v: denied after its RetryAfter of %v: R2", key, l, wait)
	}
	return err
}
