package optimistic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is the server of several clients.
type bench struct {
	mu       sync.Mutex
	revision int64
	states   map[string]stored
}

type stored struct {
	revision int64
	value    []byte
}

func newBench() *bench { return &bench{states: make(map[string]stored)} }

// client is a Store on it that counts its requests. Its hooks may change how it behaves.
type client struct {
	Limiter
	*bench
	table *Table[int64]
	trip  time.Duration // of a request

	trust   func(c *Cell[int64]) bool
	load    func() error
	swap    func() error  // after the write
	blind   bool          // a defeat does not tell what is there
	lag     bool          // reads may be old unless they are to be the latest
	offset  time.Duration // of its clock
	looked  int
	mu      sync.Mutex
	history []string
}

func (s *bench) client(keep int) *client {
	c := &client{bench: s, table: NewTable[int64](keep), trust: func(*Cell[int64]) bool { return true }}
	c.Limiter = NewLimiter(func(ctx context.Context, key string, ch Change) error { return c.table.Do(ctx, c, key, ch) })
	return c
}

func (c *client) note(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, what)
}

// requests gives what was asked for since it was last called.
func (c *client) requests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.history
	c.history = nil
	return h
}

func (c *client) Now() int64                             { return time.Now().Add(c.offset).UnixMicro() }
func (c *client) Trust(cell *Cell[int64]) bool           { return c.trust(cell) }
func (c *client) Look(*Cell[int64], driver.Limit, int64) { c.looked++ }

func (c *client) Load(ctx context.Context, cells []*Cell[int64], latest bool) error {
	what := "load"
	if latest {
		what = "latest"
	}
	c.note(fmt.Sprint(what, len(cells)))
	if err := c.travel(ctx); err != nil {
		return err
	}
	if c.load != nil {
		if err := c.load(); err != nil {
			return err
		}
	}
	c.bench.mu.Lock()
	defer c.bench.mu.Unlock()
	for _, cell := range cells {
		if err := c.see(cell); err != nil {
			return err
		}
		cell.Fresh = latest || !c.lag
	}
	return nil
}

func (c *client) travel(ctx context.Context) error {
	if c.trip == 0 {
		return nil
	}
	select {
	case <-time.After(c.trip):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// see reads a cell. bench.mu is held.
func (c *client) see(cell *Cell[int64]) error {
	var s limits.State
	at := c.states[cell.Name]
	if at.value != nil {
		if err := s.UnmarshalBinary(at.value); err != nil {
			return err
		}
	}
	cell.Saw(at.revision, s)
	return nil
}

func (c *client) Swap(ctx context.Context, cells []*Cell[int64], _ int64) (bool, error) {
	c.note(fmt.Sprint("swap", len(cells)))
	if err := c.travel(ctx); err != nil {
		return false, err
	}
	c.bench.mu.Lock()
	defer c.bench.mu.Unlock()
	for _, cell := range cells {
		if want := cell.Version; c.states[cell.Name].revision != want || !cell.Known && c.states[cell.Name].value != nil {
			return false, c.defeat(cells)
		}
	}
	for _, cell := range cells {
		if cell.Changed {
			value, err := cell.State.MarshalBinary()
			if err != nil {
				return false, err
			}
			c.revision++
			cell.Version = c.revision
			c.states[cell.Name] = stored{c.revision, value}
		}
	}
	if c.swap != nil {
		return true, c.swap()
	}
	return true, nil
}

func (c *client) defeat(cells []*Cell[int64]) error {
	for _, cell := range cells {
		if c.blind {
			cell.Version = c.states[cell.Name].revision // as a store might: it is read again
			continue
		}
		if err := c.see(cell); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) take(t *testing.T, key string, l driver.Limit, n int) driver.TakenOne {
	t.Helper()
	one, err := c.TakeOne(t.Context(), key, l, driver.Ask{Min: n, N: n})
	if err != nil {
		t.Fatalf("%d of %s: %v", n, key, err)
	}
	return one
}

func (c *client) expect(t *testing.T, what string, want ...string) {
	t.Helper()
	if got := c.requests(); !slices.Equal(got, want) {
		t.Errorf("%s: requests %q, want %q", what, got, want)
	}
}

func hourly(t *testing.T, n int) driver.Limit {
	t.Helper()
	l, err := driver.Limit{Rate: n, Per: time.Hour}.Normal()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// What each decision asks of the store, by what the client knows and what the store trusts.
func TestRequests(t *testing.T) {
	s, l := newBench(), hourly(t, 4)
	c, other := s.client(100), s.client(100)
	c.take(t, "k", l, 1)
	c.expect(t, "a new limit", "swap1")
	c.take(t, "k", l, 1)
	c.expect(t, "a known one", "swap1")
	c.take(t, "k", l, 0)
	c.expect(t, "a peek", "latest1")
	other.take(t, "k", l, 1)
	other.expect(t, "of another client, taken for new", "swap1", "swap1")
	c.take(t, "k", l, 1)
	c.expect(t, "after another client's", "swap1", "swap1")
	if one := c.take(t, "k", l, 1); one.N != 0 || one.RetryAfter <= 0 {
		t.Errorf("a fifth of four: %+v", one)
	}
	c.expect(t, "a denial", "latest1")

	careful := s.client(100)
	careful.trust = func(cell *Cell[int64]) bool { return cell.Known && !cell.Contended }
	careful.blind, careful.lag = true, true
	careful.take(t, "n", l, 1)
	careful.expect(t, "a new limit, read first", "load1", "swap1")
	careful.take(t, "n", l, 1)
	careful.expect(t, "a known one", "swap1")
	other.take(t, "n", l, 1)
	careful.take(t, "n", l, 1)
	careful.expect(t, "after another client's, when a defeat does not tell", "swap1", "load1", "swap1")
	if one := careful.take(t, "n", l, 1); one.N != 0 {
		t.Errorf("a fifth of four: %+v", one)
	}
	careful.expect(t, "a denial of what others decide on, too, when reads may be old", "load1", "latest1")
	if err := careful.Reset(t.Context(), "n", l); err != nil {
		t.Fatal(err)
	}
	careful.expect(t, "a reset", "swap1")
	if err := careful.Reset(t.Context(), "n", l); err != nil {
		t.Fatal(err)
	}
	careful.expect(t, "a reset of what is fresh", "latest1")
}

// A write that is refused because the state was not known costs no pause: nobody was faster. A defeat costs one.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := newBench(), hourly(t, 1000)
		c, other := s.client(100), s.client(100)
		c.trip, other.trip = time.Millisecond, time.Millisecond
		took := func(c *client) time.Duration {
			start := time.Now()
			c.take(t, "k", l, 1)
			return time.Since(start)
		}
		took(c)
		if d := took(other); d != 2*time.Millisecond {
			t.Errorf("a state that was not known: %v, want two round trips", d)
		}
		if d := took(c); d <= 2*time.Millisecond || d > 3*time.Millisecond {
			t.Errorf("a defeat: %v, want two round trips and a pause of at most one", d)
		}
	})
}

// Of several states those that are not trusted are read. All are written, or none.
func TestTakeAll(t *testing.T) {
	s, l := newBench(), hourly(t, 10)
	c := s.client(100)
	all := func(n ...int) []driver.Taken {
		t.Helper()
		var demands []driver.Demand
		names := []string{"b", "b", "a"}[:len(n)]
		for i, n := range n {
			demands = append(demands, driver.Demand{Key: names[i], Limit: l, N: n})
		}
		taken, err := c.table.TakeAll(t.Context(), c, names, demands)
		if err != nil {
			t.Fatal(err)
		}
		return taken
	}
	out := all(6, 5, 1)
	c.expect(t, "11 of 10 that are new", "latest2")
	if out[0].Asks[0].N != 0 || out[1].Asks[0].N != 0 || out[2].Asks[0].N != 0 {
		t.Errorf("11 of 10: granted %+v", out)
	}
	if out[0].Asks[0].RetryAfter != 0 || out[1].Asks[0].RetryAfter <= 0 || out[0].Remaining != 10 || out[2].Remaining != 10 {
		t.Errorf("11 of 10: %+v", out)
	}
	out = all(6, 4, 1)
	c.expect(t, "10 of 10", "swap2")
	if out[0].Asks[0].N != 6 || out[1].Asks[0].N != 4 || out[2].Asks[0].N != 1 || out[1].Remaining != 0 || out[2].Remaining != 9 {
		t.Errorf("10 of 10: %+v", out)
	}
	before := s.states["b"]
	if out := all(0, 0, 3); out[2].Asks[0].N != 3 || out[0].Remaining != 0 {
		t.Errorf("two peeks and 3 of 9: %+v", out)
	}
	if after := s.states["b"]; after.revision != before.revision {
		t.Error("what nothing was taken of is written")
	}
	c.requests()
	s.client(1).take(t, "a", l, 1)
	c.trust = func(cell *Cell[int64]) bool { return cell.Name == "b" }
	if out := all(0, 0, 1); out[2].Remaining != 4 {
		t.Errorf("after another client's: %+v", out)
	}
	c.expect(t, "one of two is not trusted", "load1", "swap2")
	if out := all(0, 0, 0); out[2].Remaining != 4 {
		t.Errorf("peeks: %+v", out)
	}
	c.expect(t, "peeks", "latest2")
	if out, err := c.table.TakeAll(t.Context(), c, nil, nil); out != nil || err != nil {
		t.Errorf("no demands: %v, %v", out, err)
	}
}

// An error says whether anything can have been written, and what is known is not believed after it.
func TestErrors(t *testing.T) {
	broken := errors.New("broken")
	s, l := newBench(), hourly(t, 10)
	c := s.client(100)
	c.take(t, "k", l, 1)
	c.swap = func() error { return broken }
	_, err := c.TakeOne(t.Context(), "k", l, driver.Ask{Min: 1, N: 1})
	if !errors.Is(err, broken) || driver.Definite(err) {
		t.Errorf("a write without a reply: %v, want an unknown outcome", err)
	}
	c.swap = nil
	if one := c.take(t, "k", l, 1); one.Remaining != 7 {
		t.Errorf("%d remain, want 7: what had no reply was written", one.Remaining)
	}
	c.load = func() error { return broken }
	_, err = c.TakeOne(t.Context(), "k", l, driver.Ask{})
	if !errors.Is(err, broken) || !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("a read without a reply: %v, want ErrNotSent", err)
	}
	c.load = func() error { return driver.ErrCorrupt }
	_, err = c.TakeOne(t.Context(), "k", l, driver.Ask{})
	if !errors.Is(err, driver.ErrCorrupt) || errors.Is(err, driver.ErrNotSent) {
		t.Errorf("a damaged state: %v, want ErrCorrupt", err)
	}
}

// Callers of one client do not defeat each other, and those who give up meanwhile were not sent.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := newBench(), hourly(t, 1000)
		c := s.client(100)
		c.trip = time.Millisecond
		c.take(t, "k", l, 1)
		c.requests()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { c.take(t, "k", l, 1) })
		}
		wg.Wait()
		if n := len(c.requests()); n != 20 {
			t.Errorf("%d requests for 20 decisions", n)
		}
		c.trip = time.Hour
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := c.TakeOne(ctx, "k", l, driver.Ask{Min: 1, N: 1}); driver.Definite(err) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("under way: %v, want an unknown outcome", err)
			}
		})
		synctest.Wait()
		for _, take := range []func(context.Context) error{
			func(ctx context.Context) error {
				_, err := c.TakeOne(ctx, "k", l, driver.Ask{Min: 1, N: 1})
				return err
			},
			func(ctx context.Context) error {
				_, err := c.table.TakeAll(ctx, c, []string{"j", "k"}, []driver.Demand{{Key: "j", Limit: l, N: 1}, {Key: "k", Limit: l, N: 1}})
				return err
			},
			func(ctx context.Context) error {
				_, err := c.table.Lock(ctx, "k")
				return err
			},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := take(ctx)
			cancel()
			if !errors.Is(err, driver.ErrNotSent) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("waiting for the other: %v, want ErrNotSent and DeadlineExceeded", err)
			}
		}
		wg.Wait()
		c.trip = 0
		c.take(t, "j", l, 1) // nobody has its turn
	})
}

// An adapter that decides by itself has the same turns: of ten calls for each of three names, three are at work at once.
func TestLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, began := NewTable[struct{}](0), time.Now()
		var wg sync.WaitGroup
		for i := range 30 {
			wg.Go(func() {
				unlock, err := turns.Lock(t.Context(), fmt.Sprint(i%3))
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Second)
				unlock()
			})
		}
		wg.Wait()
		if took := time.Since(began); took != 10*time.Second || len(turns.cells) != 0 {
			t.Errorf("it took %v, and %d names are left: want 10s, and none", took, len(turns.cells))
		}
	})
}

// Calls that want several states in any order never wait for each other.
func TestOrderOfTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := newBench(), hourly(t, 1000)
		c := s.client(100)
		c.trip = time.Millisecond
		var wg sync.WaitGroup
		for i := range 20 {
			names := []string{"a", "b", "c"}
			if i%2 > 0 {
				slices.Reverse(names)
			}
			wg.Go(func() {
				demands := []driver.Demand{{Limit: l, N: 1}, {Limit: l, N: 1}, {Limit: l, N: 1}}
				if _, err := c.table.TakeAll(t.Context(), c, names, demands); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if one := c.take(t, "a", l, 0); one.Remaining != 980 {
			t.Errorf("%d remain of 1000, want 980", one.Remaining)
		}
	})
}

// Writers of many clients on one state: all get through, each is counted once, and none is denied for it.
func TestWriters(t *testing.T) {
	for name, set := range map[string]func(*client){
		"a defeat tells":         func(*client) {},
		"a defeat does not tell": func(c *client) { c.blind, c.trust = true, func(cell *Cell[int64]) bool { return cell.Known } },
		"nothing is remembered":  func(c *client) { c.trust = func(*Cell[int64]) bool { return false } },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const clients, each = 16, 20
				s, l := newBench(), hourly(t, 1000)
				var wg sync.WaitGroup
				for range clients {
					c := s.client(100)
					c.trip = time.Millisecond
					set(c)
					wg.Go(func() {
						for range each {
							ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
							one, err := c.TakeOne(ctx, "k", l, driver.Ask{Min: 1, N: 1})
							cancel()
							if err != nil || one.N != 1 {
								t.Errorf("%+v, %v", one, err)
								return
							}
						}
					})
				}
				wg.Wait()
				if one := s.client(1).take(t, "k", l, 0); one.Remaining != 1000-clients*each {
					t.Errorf("%d remain, want %d", one.Remaining, 1000-clients*each)
				}
			})
		})
	}
}

// Defeats without end are bounded by ctx, and say that nothing was taken.
func TestDefeatsEndWithCtx(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := newBench(), hourly(t, 1000)
		c := s.client(100)
		c.trip = time.Millisecond
		rival := s.client(100)
		c.trust = func(*Cell[int64]) bool { return false }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() { // somebody is always first
			for ctx.Err() == nil {
				rival.take(t, "k", l, 1)
				if err := rival.Reset(t.Context(), "k", l); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Millisecond / 2)
			}
		})
		start := time.Now()
		_, err := c.TakeOne(ctx, "k", l, driver.Ask{Min: 1, N: 1})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > time.Second {
			t.Errorf("%v after %v, want ctx's error after 1s", err, time.Since(start))
		}
		wg.Wait()
	})
}

// The table forgets what it has no room for, but nothing that is in use.
func TestKeep(t *testing.T) {
	s, l := newBench(), hourly(t, 1000)
	for _, keep := range []int{0, 1, 10} {
		c := s.client(keep)
		for i := range 100 {
			c.take(t, fmt.Sprint(keep, "/", i), l, 1)
			if n := len(c.table.cells); n > keep {
				t.Fatalf("%d states are remembered, want at most %d", n, keep)
			}
		}
		held := c.table.enter("held")
		for i := range 100 {
			c.take(t, fmt.Sprint(keep, "/", i), l, 1)
		}
		if c.table.cells["held"] != held {
			t.Error("a state that is in use was forgotten")
		}
		c.table.leave(held)
	}
	c := s.client(10)
	for i := range 5 {
		c.take(t, fmt.Sprint("k", i), l, 1)
	}
	held := c.table.enter("k0")
	c.table.Forget(func(cell *Cell[int64]) bool { return cell.Name != "k1" })
	c.table.leave(held)
	if n := len(c.table.cells); n != 2 {
		t.Errorf("%d states are left, want the one that is in use and the one to be kept", n)
	}
}

// Reset forgets the debt of a wider limit on the same account, too.
func TestResetOfSharedAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := func(burst int) driver.Limit {
			l, err := driver.Limit{Rate: 1, Per: time.Second, Burst: burst, Algorithm: driver.TokenBucket}.Normal()
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		s := newBench()
		c := s.client(100)
		c.take(t, "k", limit(100), 100)
		time.Sleep(10 * time.Second)
		if one := c.take(t, "k", limit(5), 0); one.Remaining != 5 {
			t.Fatalf("%d remain of the narrower limit, want 5: the test shows nothing", one.Remaining)
		}
		if err := c.Reset(t.Context(), "k", limit(5)); err != nil {
			t.Fatal(err)
		}
		if one := c.take(t, "k", limit(100), 0); one.Remaining != 100 {
			t.Errorf("%d remain of the wider limit after a reset, want 100", one.Remaining)
		}
	})
}

// A pause grows with the defeats, and is bounded, by round trips where the store is slow. It is never none.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Backoff
		from := func(trip time.Duration) {
			b.rtt.Store(0)
			b.Observe(trip)
		}
		check := func(what string, pause func() error, want time.Duration) {
			t.Helper()
			shortest, longest := time.Hour, time.Duration(0)
			for range 1000 {
				start := time.Now()
				if err := pause(); err != nil {
					t.Fatal(err)
				}
				took := time.Since(start)
				shortest, longest = min(shortest, took), max(longest, took)
			}
			if shortest < want/10 || longest > want || longest < want*9/10 {
				t.Errorf("%s: %v to %v in 1000 pauses, want %v to %v", what, shortest, longest, want/10, want)
			}
		}
		after := func(before int, want time.Duration) {
			t.Helper()
			check(fmt.Sprintf("after %d defeats", before+1), func() error { return b.Pause(t.Context(), before) }, want)
		}
		from(2 * time.Millisecond)
		for before, want := range map[int]time.Duration{
			0: 2 * time.Millisecond, 1: 4 * time.Millisecond, 3: 16 * time.Millisecond, 4: maxPause, 12: maxPause, 100: maxPause,
		} {
			after(before, want)
		}
		check("a brief one", func() error { return b.brief(t.Context()) }, time.Millisecond/2)
		from(50 * time.Millisecond)
		after(0, 50*time.Millisecond)
		after(100, 400*time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(0, cancel)
		synctest.Wait()
		for _, before := range []int{0, 100} {
			if err := b.Pause(ctx, before); !errors.Is(err, driver.ErrNotSent) || !errors.Is(err, context.Canceled) {
				t.Errorf("%v, want ErrNotSent and Canceled", err)
			}
		}
	})
}
