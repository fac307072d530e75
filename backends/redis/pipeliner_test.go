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

// network sees all that a client sends, which never connects, and says when it is answered.
type network struct{ calls chan *sentCall }

type sentCall struct {
	deadline time.Time // zero: none
	cmds     []redis.Cmder
	answer   chan error
}

func (w *network) take(ctx context.Context, cmds ...redis.Cmder) error {
	f := &sentCall{cmds: cmds, answer: make(chan error, 1)}
	f.deadline, _ = ctx.Deadline()
	w.calls <- f
	return <-f.answer
}

func (w *network) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no network") }
}

func (w *network) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return w.take(ctx, cmd) }
}

func (w *network) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { return w.take(ctx, cmds...) }
}

// observed is a backend whose calls the test sees.
type observed struct {
	*backend
	*network
	t       *testing.T
	results chan error // of calls
	calls   int
}

// observe runs test where time is the test's own.
func observe(t *testing.T, test func(t *testing.T, g *observed)) {
	synctest.Test(t, func(t *testing.T) {
		g := &observed{network: &network{make(chan *sentCall, 1000)}, t: t, results: make(chan error, 1000)}
		client := redis.NewClient(clientOptions("127.0.0.1:1"))
		defer client.Close()
		client.AddHook(g.network)
		g.backend = &backend{client: client, closing: make(chan struct{})}
		test(t, g)
	})
}

// call begins n calls under ctx, and returns when they are sent or queued.
func (g *observed) call(ctx context.Context, n int) {
	for range n {
		g.calls++
		cmd := redis.NewStatusCmd(ctx, "ping", strconv.Itoa(g.calls))
		go func() { g.results <- g.process(ctx, cmd) }()
		synctest.Wait()
	}
}

// sent is the next call, which must have cmds requests.
func (g *observed) sent(cmds int) *sentCall {
	g.t.Helper()
	synctest.Wait()
	select {
	case f := <-g.network.calls:
		if len(f.cmds) != cmds {
			g.t.Fatalf("a call of %d requests, want %d", len(f.cmds), cmds)
		}
		return f
	default:
		g.t.Fatalf("no call, want one of %d requests", cmds)
		return nil
	}
}

// full begins as many calls of one request as there may be.
func (g *observed) full(ctx context.Context) (calls []*sentCall) {
	g.t.Helper()
	for range maxActive {
		g.call(ctx, 1)
		calls = append(calls, g.sent(1))
	}
	return calls
}

// nothingSent checks that nothing is sent.
func (g *observed) nothingSent() {
	g.t.Helper()
	synctest.Wait()
	if n := len(g.network.calls); n != 0 {
		g.t.Fatalf("%d calls, want none", n)
	}
}

// ended are the results of n calls that have ended.
func (g *observed) ended(n int) (errs []error) {
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

func (g *observed) succeeded(n int) {
	g.t.Helper()
	if err := errors.Join(g.ended(n)...); err != nil {
		g.t.Fatal(err)
	}
}

// Requests are sent at once while few calls are under way, and then together when one of those returns.
func TestPipelinerShares(t *testing.T) {
	observe(t, func(t *testing.T, g *observed) {
		first := g.full(t.Context())
		g.call(t.Context(), 10)
		g.nothingSent()
		first[0].answer <- nil
		together := g.sent(10)
		g.succeeded(1)
		g.call(t.Context(), 3)
		first[1].answer <- nil
		more := g.sent(3)
		for i, c := range together.cmds {
			if want := strconv.Itoa(maxActive + 1 + i); c.Args()[1] != want {
				t.Errorf("call %v is sent in place %d: want the order in which they came", c.Args()[1], i)
			}
		}
		together.answer <- nil
		more.answer <- nil
		for _, f := range first[2:] {
			f.answer <- nil
		}
		g.succeeded(1 + 10 + 3 + maxActive - 2)
		g.call(t.Context(), 1) // alone again
		g.sent(1).answer <- nil
		g.succeeded(1)
	})
}

// A long queue is sent in parts.
func TestPipelinerBoundsAPipeline(t *testing.T) {
	observe(t, func(t *testing.T, g *observed) {
		first := g.full(t.Context())
		g.call(t.Context(), maxPipelined+5)
		first[0].answer <- nil
		all := g.sent(maxPipelined)
		g.nothingSent()
		all.answer <- nil
		g.sent(5).answer <- nil
		for _, f := range first[1:] {
			f.answer <- nil
		}
		g.succeeded(maxActive + maxPipelined + 5)
	})
}

// Each request of a pipeline has its own result.
func TestPipelinerOwnResults(t *testing.T) {
	observe(t, func(t *testing.T, g *observed) {
		first := g.full(t.Context())
		g.call(t.Context(), 4)
		first[0].answer <- nil
		together := g.sent(4)
		g.succeeded(1)
		broken := errors.New("broken")
		together.cmds[2].SetErr(broken)
		together.answer <- nil
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
			f.answer <- nil
		}
	})
}

// Whose ctx ends returns at once. A call that waits is not sent any more, of one that was sent
// nobody knows; others do not notice.
func TestPipelinerCallerLeaves(t *testing.T) {
	observe(t, func(t *testing.T, g *observed) {
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
		first[0].answer <- nil
		together := g.sent(3)
		g.succeeded(1)
		cancelLate()
		if err := g.ended(1)[0]; !errors.Is(err, context.Canceled) || driver.Definite(err) {
			t.Errorf("cancelled under way: %v, want an unknown outcome", err)
		}
		together.answer <- nil
		g.succeeded(2)
		for _, f := range first[1:] {
			f.answer <- nil
		}
	})
}

// A Bound ends a call as its deadline says, and not that of another call with it.
func TestPipelinerDeadlines(t *testing.T) {
	observe(t, func(t *testing.T, g *observed) {
		start := time.Now()
		first := g.full(t.Context())
		short, long := driver.NewBound(t.Context(), time.Millisecond), driver.NewBound(t.Context(), time.Second)
		defer short.Stop()
		defer long.Stop()
		g.call(short, 1)
		first[0].answer <- nil
		waits := g.sent(1)
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
		waits.answer <- nil
		g.call(long, 1)
		lone := g.sent(1)
		shorter := driver.NewBound(t.Context(), 100*time.Millisecond)
		defer shorter.Stop()
		g.call(long, 1)
		g.call(shorter, 1)
		lone.answer <- nil
		both := g.sent(2)
		if want, _ := long.Deadline(); !both.deadline.Equal(want) {
			t.Errorf("requests share a call until %v, want the later deadline, %v", both.deadline, want)
		}
		g.call(long, 1)
		g.call(context.Background(), 1)
		both.answer <- nil
		endless := g.sent(2)
		if !endless.deadline.IsZero() {
			t.Errorf("a call without a deadline has that of another, %v", endless.deadline)
		}
		endless.answer <- nil
		for _, f := range first[1:] {
			f.answer <- nil
		}
		g.succeeded(1 + 2 + 2 + maxActive - 1)
	})
}

// Flights that hang hold up nobody for longer than stall, and then they do not count.
func TestPipelinerCallsHang(t *testing.T) {
	observe(t, func(t *testing.T, g *observed) {
		hang := g.full(t.Context())
		g.call(t.Context(), 3)
		g.nothingSent()
		time.Sleep(stall)
		after := g.sent(3)
		after.answer <- nil
		g.succeeded(3)
		fresh := g.full(t.Context()) // at once
		for _, f := range hang {
			f.answer <- nil
		}
		g.succeeded(len(hang))
		g.call(t.Context(), 2) // those that have hung leave no room
		g.nothingSent()
		fresh[0].answer <- nil
		g.sent(2).answer <- nil
		for _, f := range fresh[1:] {
			f.answer <- nil
		}
		g.succeeded(2 + len(fresh))
	})
}

// While some calls return, the queue moves: nothing is sent beside them.
func TestPipelinerSlowCalls(t *testing.T) {
	observe(t, func(t *testing.T, g *observed) {
		calls := g.full(t.Context())
		for range 10 {
			g.call(t.Context(), 2)
			time.Sleep(stall - time.Microsecond)
			calls[0].answer <- nil
			calls = append(calls[1:], g.sent(2))
			g.nothingSent()
		}
		for _, f := range calls {
			f.answer <- nil
		}
		g.succeeded(maxActive + 20)
	})
}

// Close ends calls under way, whose outcome is unknown, and those that wait, which are not sent.
func TestPipelinerCloses(t *testing.T) {
	observe(t, func(t *testing.T, g *observed) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		calls := g.full(ctx)
		g.call(ctx, 2)
		calls[0].answer <- nil
		g.succeeded(1)
		calls[0] = g.sent(2)
		g.call(ctx, 3)
		close(g.closing)
		unsent := 0
		for _, err := range g.ended(maxActive - 1 + 2 + 3) {
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
		for _, f := range calls {
			f.answer <- nil
		}
		g.call(ctx, 1)
		if err := g.ended(1)[0]; !errors.Is(err, driver.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		time.Sleep(2 * stall)
		g.nothingSent()
	})
}

// panicking is a hook that panics.
type panicking struct{ *network }

func (panicking) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(context.Context, redis.Cmder) error { panic("hook") }
}

// A caller that panics leaves its place to others.
func TestPipelinerPanic(t *testing.T) {
	observe(t, func(t *testing.T, g *observed) {
		client := redis.NewClient(clientOptions("127.0.0.1:1"))
		defer client.Close()
		client.AddHook(panicking{g.network})
		for range maxActive {
			func() {
				defer func() {
					if recover() == nil {
						t.Error("no panic")
					}
				}()
				_ = g.pipeliners.of(g.backend, client).process(context.Background(), redis.NewStatusCmd(t.Context(), "ping"))
			}()
		}
		if !g.pipeliners.of(g.backend, client).idle() {
			t.Error("panics have left calls behind")
		}
	})
}
