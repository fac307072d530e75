package redis

import (
	"context"
	"errors"
	"net"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
)

// tower sees every flight of a client, which never connects, and says when it lands.
type tower struct{ flights chan *flight }

type flight struct {
	deadline time.Time // zero: none
	cmds     []redis.Cmder
	land     chan error
}

func (w *tower) take(ctx context.Context, cmds ...redis.Cmder) error {
	f := &flight{cmds: cmds, land: make(chan error, 1)}
	f.deadline, _ = ctx.Deadline()
	w.flights <- f
	return <-f.land
}

func (w *tower) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no network") }
}

func (w *tower) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return w.take(ctx, cmd) }
}

func (w *tower) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { return w.take(ctx, cmds...) }
}

// gated is a backend whose flights the test sees.
type gated struct {
	*backend
	*tower
	t       *testing.T
	results chan error // of calls
	calls   int
}

// atTheGate runs test where time is the test's own.
func atTheGate(t *testing.T, test func(t *testing.T, g *gated)) {
	synctest.Test(t, func(t *testing.T) {
		g := &gated{tower: &tower{make(chan *flight, 1000)}, t: t, results: make(chan error, 1000)}
		client := redis.NewClient(clientOptions("127.0.0.1:1"))
		defer client.Close()
		client.AddHook(g.tower)
		g.backend = &backend{client: client, closing: make(chan struct{})}
		test(t, g)
	})
}

// call begins n calls under ctx, and returns when they fly or wait.
func (g *gated) call(ctx context.Context, n int) {
	for range n {
		g.calls++
		cmd := redis.NewStatusCmd(ctx, "ping", strconv.Itoa(g.calls))
		go func() { g.results <- g.process(ctx, cmd) }()
		synctest.Wait()
	}
}

// flight is the next flight, which must have cmds calls.
func (g *gated) flight(cmds int) *flight {
	g.t.Helper()
	synctest.Wait()
	select {
	case f := <-g.flights:
		if len(f.cmds) != cmds {
			g.t.Fatalf("a flight of %d calls, want %d", len(f.cmds), cmds)
		}
		return f
	default:
		g.t.Fatalf("no flight, want one of %d calls", cmds)
		return nil
	}
}

// full begins as many flights of one call as there may be.
func (g *gated) full(ctx context.Context) (flights []*flight) {
	g.t.Helper()
	for range flightsAtMost {
		g.call(ctx, 1)
		flights = append(flights, g.flight(1))
	}
	return flights
}

// ground checks that nothing flies.
func (g *gated) ground() {
	g.t.Helper()
	synctest.Wait()
	if n := len(g.flights); n != 0 {
		g.t.Fatalf("%d flights, want none", n)
	}
}

// ended are the results of n calls that have ended.
func (g *gated) ended(n int) (errs []error) {
	g.t.Helper()
	synctest.Wait()
	if len(g.results) != n {
		g.t.Fatalf("%d calls have ended, want %d", len(g.results), n)
	}
	for range n {
		errs = append(errs, <-g.results)
	}
	return errs
}

func (g *gated) succeeded(n int) {
	g.t.Helper()
	if err := errors.Join(g.ended(n)...); err != nil {
		g.t.Fatal(err)
	}
}

// Calls fly at once while few do, and then together when one of those lands.
func TestGateShares(t *testing.T) {
	atTheGate(t, func(t *testing.T, g *gated) {
		first := g.full(t.Context())
		g.call(t.Context(), 10)
		g.ground()
		first[0].land <- nil
		together := g.flight(10)
		g.succeeded(1)
		g.call(t.Context(), 3)
		first[1].land <- nil
		more := g.flight(3)
		for i, c := range together.cmds {
			if want := strconv.Itoa(flightsAtMost + 1 + i); c.Args()[1] != want {
				t.Errorf("call %v flies in place %d: want the order in which they came", c.Args()[1], i)
			}
		}
		together.land <- nil
		more.land <- nil
		for _, f := range first[2:] {
			f.land <- nil
		}
		g.succeeded(1 + 10 + 3 + flightsAtMost - 2)
		g.call(t.Context(), 1) // alone again
		g.flight(1).land <- nil
		g.succeeded(1)
	})
}

// A long queue flies in parts.
func TestGateBoundsAFlight(t *testing.T) {
	atTheGate(t, func(t *testing.T, g *gated) {
		first := g.full(t.Context())
		g.call(t.Context(), passengersAtMost+5)
		first[0].land <- nil
		all := g.flight(passengersAtMost)
		g.ground()
		all.land <- nil
		g.flight(5).land <- nil
		for _, f := range first[1:] {
			f.land <- nil
		}
		g.succeeded(flightsAtMost + passengersAtMost + 5)
	})
}

// Each call of a flight has its own result.
func TestGateOwnResults(t *testing.T) {
	atTheGate(t, func(t *testing.T, g *gated) {
		first := g.full(t.Context())
		g.call(t.Context(), 4)
		first[0].land <- nil
		together := g.flight(4)
		g.succeeded(1)
		broken := errors.New("broken")
		together.cmds[2].SetErr(broken)
		together.land <- nil
		failed := 0
		for _, err := range g.ended(4) {
			if errors.Is(err, broken) {
				failed++
			} else if err != nil {
				t.Error(err)
			}
		}
		if failed != 1 {
			t.Errorf("%d of 4 calls failed, want one", failed)
		}
		for _, f := range first[1:] {
			f.land <- nil
		}
	})
}

// Whose ctx ends returns at once. A call that waits is not sent any more, of one that was sent
// nobody knows; others do not notice.
func TestGateCallerLeaves(t *testing.T) {
	atTheGate(t, func(t *testing.T, g *gated) {
		first := g.full(t.Context())
		g.call(t.Context(), 2)
		early, cancelEarly := context.WithCancel(t.Context())
		late, cancelLate := context.WithCancel(t.Context())
		defer cancelLate()
		g.call(early, 1)
		g.call(late, 1)
		cancelEarly()
		if err := g.ended(1)[0]; !errors.Is(err, context.Canceled) || !errors.Is(err, driver.ErrNotSent) {
			t.Errorf("cancelled while it waits: %v, want that it was not sent", err)
		}
		first[0].land <- nil
		together := g.flight(3)
		g.succeeded(1)
		cancelLate()
		if err := g.ended(1)[0]; !errors.Is(err, context.Canceled) || driver.Definite(err) {
			t.Errorf("cancelled under way: %v, want an unknown outcome", err)
		}
		together.land <- nil
		g.succeeded(2)
		for _, f := range first[1:] {
			f.land <- nil
		}
	})
}

// A Bound ends a call as its deadline says, and not that of another call with it.
func TestGateDeadlines(t *testing.T) {
	atTheGate(t, func(t *testing.T, g *gated) {
		start := time.Now()
		first := g.full(t.Context())
		short, long := driver.NewBound(t.Context(), time.Millisecond), driver.NewBound(t.Context(), time.Second)
		defer short.Stop()
		defer long.Stop()
		g.call(short, 1)
		first[0].land <- nil
		waits := g.flight(1)
		g.succeeded(1)
		g.call(short, 1)
		time.Sleep(time.Millisecond)
		sent := 0
		for _, err := range g.ended(2) {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, want that its deadline has passed", err)
			}
			if !errors.Is(err, driver.ErrNotSent) {
				sent++
			}
		}
		if sent != 1 {
			t.Errorf("%d of two calls say that they may have been sent: want the one that was", sent)
		}
		if took := time.Since(start); took != time.Millisecond {
			t.Errorf("took %v", took)
		}
		waits.land <- nil
		g.call(long, 1)
		lone := g.flight(1)
		shorter := driver.NewBound(t.Context(), 100*time.Millisecond)
		defer shorter.Stop()
		g.call(long, 1)
		g.call(shorter, 1)
		lone.land <- nil
		both := g.flight(2)
		if want, _ := long.Deadline(); !both.deadline.Equal(want) {
			t.Errorf("calls fly together until %v, want the later deadline, %v", both.deadline, want)
		}
		g.call(long, 1)
		g.call(context.Background(), 1)
		both.land <- nil
		endless := g.flight(2)
		if !endless.deadline.IsZero() {
			t.Errorf("a call without a deadline has that of another, %v", endless.deadline)
		}
		endless.land <- nil
		for _, f := range first[1:] {
			f.land <- nil
		}
		g.succeeded(1 + 2 + 2 + flightsAtMost - 1)
	})
}

// Flights that hang hold up nobody for longer than patience, and then they do not count.
func TestGateFlightsHang(t *testing.T) {
	atTheGate(t, func(t *testing.T, g *gated) {
		hang := g.full(t.Context())
		g.call(t.Context(), 3)
		g.ground()
		time.Sleep(patience)
		after := g.flight(3)
		after.land <- nil
		g.succeeded(3)
		fresh := g.full(t.Context()) // at once
		for _, f := range hang {
			f.land <- nil
		}
		g.succeeded(len(hang))
		g.call(t.Context(), 2) // those that have hung leave no room
		g.ground()
		fresh[0].land <- nil
		g.flight(2).land <- nil
		for _, f := range fresh[1:] {
			f.land <- nil
		}
		g.succeeded(2 + len(fresh))
	})
}

// While some flights land, the queue moves: nothing is launched beside them.
func TestGateSlowFlights(t *testing.T) {
	atTheGate(t, func(t *testing.T, g *gated) {
		flights := g.full(t.Context())
		for range 10 {
			g.call(t.Context(), 2)
			time.Sleep(patience - time.Microsecond)
			flights[0].land <- nil
			flights = append(flights[1:], g.flight(2))
			g.ground()
		}
		for _, f := range flights {
			f.land <- nil
		}
		g.succeeded(flightsAtMost + 20)
	})
}

// Close ends calls under way, whose outcome is unknown, and those that wait, which are not sent.
func TestGateCloses(t *testing.T) {
	atTheGate(t, func(t *testing.T, g *gated) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		flights := g.full(ctx)
		g.call(ctx, 2)
		flights[0].land <- nil
		g.succeeded(1)
		flights[0] = g.flight(2)
		g.call(ctx, 3)
		close(g.closing)
		unsent := 0
		for _, err := range g.ended(flightsAtMost - 1 + 2 + 3) {
			switch {
			case errors.Is(err, driver.ErrClosed):
				unsent++
			case !errors.Is(err, errClosing):
				t.Error(err)
			}
		}
		if unsent != 3 {
			t.Errorf("%d calls were not sent, want 3", unsent)
		}
		for _, f := range flights {
			f.land <- nil
		}
		g.call(ctx, 1)
		if err := g.ended(1)[0]; !errors.Is(err, driver.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		time.Sleep(2 * patience)
		g.ground()
	})
}

// panicking is a hook that panics.
type panicking struct{ *tower }

func (panicking) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(context.Context, redis.Cmder) error { panic("hook") }
}

// A caller that panics leaves its place to others.
func TestGatePanic(t *testing.T) {
	atTheGate(t, func(t *testing.T, g *gated) {
		client := redis.NewClient(clientOptions("127.0.0.1:1"))
		defer client.Close()
		client.AddHook(panicking{g.tower})
		for range flightsAtMost {
			func() {
				defer func() {
					if recover() == nil {
						t.Error("no panic")
					}
				}()
				_ = g.gates.of(g.backend, client).process(context.Background(), redis.NewStatusCmd(t.Context(), "ping"))
			}()
		}
		if !g.gates.of(g.backend, client).idle() {
			t.Error("panics have left flights behind")
		}
	})
}
