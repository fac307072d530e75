package batch_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/batch"
	"github.com/coordgo/coord/driver/call"
)

const (
	maxActive    = 4
	maxPipelined = 128
	stall        = 2 * time.Millisecond
)

var errClosing = errors.New("closed during the call")

// request is a request. Those of one place do not share a batch.
type request struct {
	number int
	place  string
	err    error // of it alone
}

// network sees all that is sent, and says when it is answered.
type network struct {
	sends   chan *sentCall
	adapter *call.Calls
}

type sentCall struct {
	deadline time.Time // zero: none
	ctx      context.Context
	requests []*request
	answer   chan error
}

func (w *network) take(ctx context.Context, rs ...*request) error {
	f := &sentCall{ctx: ctx, requests: rs, answer: make(chan error, 1)}
	f.deadline, _ = ctx.Deadline()
	w.sends <- f
	select {
	case err := <-f.answer:
		return err
	case <-w.adapter.Life().Done():
		return errClosing
	}
}

func (w *network) Send(ctx context.Context, r *request) error { return w.take(ctx, r) }

func (w *network) SendAll(ctx context.Context, rs []*request, answer func(int, error)) {
	err := w.take(ctx, rs...)
	for i, r := range rs {
		answer(i, errors.Join(err, r.err))
	}
}

func (w *network) Join(before []*request, r *request) (fits, full bool) {
	for _, other := range before {
		if r.place != "" && other.place == r.place {
			return false, false
		}
	}
	return true, len(before)+1 == maxPipelined
}

// observed is a Batcher whose calls the test sees.
type observed struct {
	*batch.Batcher[*request]
	*network
	t       *testing.T
	results chan error // of calls
	calls   int
}

// observe runs test where time is the test's own.
func observe(t *testing.T, test func(t *testing.T, g *observed)) { observeShared(t, maxActive, test) }

// observeShared is observe with so many batches under way.
func observeShared(t *testing.T, shared int, test func(t *testing.T, g *observed)) {
	synctest.Test(t, func(t *testing.T) {
		calls := call.New(call.Options{ErrClosing: errClosing})
		g := &observed{network: &network{make(chan *sentCall, 1000), calls}, t: t, results: make(chan error, 1000)}
		g.Batcher = batch.New[*request](g.network, batch.Options{
			Out: maxActive, Shared: shared, Wait: stall, Calls: calls,
		})
		test(t, g)
		if synctest.Wait(); !g.Idle() {
			t.Error("something is left")
		}
	})
}

// call begins n calls under ctx, and returns when they are sent or queued.
func (g *observed) call(ctx context.Context, n int) {
	for range n {
		g.begin(ctx, &request{})
	}
}

func (g *observed) begin(ctx context.Context, r *request) {
	g.calls++
	r.number = g.calls
	go func() { g.results <- g.Do(ctx, r) }()
	synctest.Wait()
}

// sent is the next call, which must have cmds requests.
func (g *observed) sent(cmds int) *sentCall {
	g.t.Helper()
	synctest.Wait()
	select {
	case f := <-g.network.sends:
		if len(f.requests) != cmds {
			g.t.Fatalf("a call of %d requests, want %d", len(f.requests), cmds)
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
	if n := len(g.network.sends); n != 0 {
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
func TestShares(t *testing.T) {
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
		for i, r := range together.requests {
			if want := maxActive + 1 + i; r.number != want {
				t.Errorf("call %d is sent in place %d: want the order in which they came", r.number, i)
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

// A batch that is full is sent at once.
func TestFull(t *testing.T) {
	observe(t, func(t *testing.T, g *observed) {
		first := g.full(t.Context())
		g.call(t.Context(), maxPipelined-1)
		g.nothingSent()
		g.call(t.Context(), 6)
		all := g.sent(maxPipelined)
		g.nothingSent()
		all.answer <- nil
		first[0].answer <- nil
		g.sent(5).answer <- nil
		for _, f := range first[1:] {
			f.answer <- nil
		}
		g.succeeded(maxActive + maxPipelined + 5)
	})
}

// A request that does not fit is sent by itself.
func TestDoesNotFit(t *testing.T) {
	observe(t, func(t *testing.T, g *observed) {
		first := g.full(t.Context())
		g.begin(t.Context(), &request{place: "a"})
		g.begin(t.Context(), &request{place: "b"})
		g.nothingSent()
		g.begin(t.Context(), &request{place: "a"})
		g.sent(1).answer <- nil
		g.succeeded(1)
		for _, f := range first {
			f.answer <- nil
		}
		g.sent(2).answer <- nil
		g.succeeded(maxActive + 2)
	})
}

// Where one batch is under way at a time, all that come meanwhile share the next.
func TestOneBatchAtATime(t *testing.T) {
	observeShared(t, 1, func(t *testing.T, g *observed) {
		first := g.full(t.Context())
		g.call(t.Context(), 2)
		first[0].answer <- nil
		shared := g.sent(2)
		for _, f := range first[1:] {
			f.answer <- nil
		}
		g.call(t.Context(), 3)
		g.nothingSent()
		shared.answer <- nil
		g.sent(3).answer <- nil
		g.succeeded(maxActive + 5)
	})
}

// The context of a batch ends when nobody waits for it any more.
func TestAllCallersLeave(t *testing.T) {
	observe(t, func(t *testing.T, g *observed) {
		first := g.full(t.Context())
		one, cancelOne := context.WithCancel(t.Context())
		other, cancelOther := context.WithCancel(t.Context())
		g.call(one, 1)
		g.call(other, 1)
		first[0].answer <- nil
		both := g.sent(2)
		cancelOne()
		if synctest.Wait(); both.ctx.Err() != nil {
			t.Error("the context has ended, though somebody waits")
		}
		cancelOther()
		if synctest.Wait(); both.ctx.Err() == nil {
			t.Error("the context goes on, though nobody waits")
		}
		both.answer <- both.ctx.Err()
		for _, f := range first[1:] {
			f.answer <- nil
		}
		synctest.Wait()
		g.ended(maxActive + 2)
	})
}

// Each request of a pipeline has its own result.
func TestOwnResults(t *testing.T) {
	observe(t, func(t *testing.T, g *observed) {
		first := g.full(t.Context())
		g.call(t.Context(), 4)
		first[0].answer <- nil
		together := g.sent(4)
		g.succeeded(1)
		broken := errors.New("broken")
		together.requests[2].err = broken
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
func TestCallerLeaves(t *testing.T) {
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
func TestDeadlines(t *testing.T) {
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

// Calls that hang hold up nobody for longer than Wait.
func TestCallsHang(t *testing.T) {
	observe(t, func(t *testing.T, g *observed) {
		hang := g.full(t.Context())
		for range 2 {
			g.call(t.Context(), 3)
			g.nothingSent()
			time.Sleep(stall)
			g.sent(3).answer <- nil
			g.succeeded(3)
		}
		for _, f := range hang {
			f.answer <- nil
		}
		g.succeeded(len(hang))
		for _, f := range g.full(t.Context()) { // at once
			f.answer <- nil
		}
		g.succeeded(maxActive)
	})
}

// While some calls return, the queue moves: nothing is sent beside them.
func TestSlowCalls(t *testing.T) {
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
func TestCloses(t *testing.T) {
	observe(t, func(t *testing.T, g *observed) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		calls := g.full(ctx)
		g.call(ctx, 2)
		calls[0].answer <- nil
		g.succeeded(1)
		calls[0] = g.sent(2)
		g.call(ctx, 3)
		g.adapter.Close()
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
		time.Sleep(2 * stall)
		g.nothingSent()
	})
}

// panicking is a sender that panics.
type panicking struct{ *network }

func (panicking) Send(context.Context, *request) error { panic("sender") }

// A caller that panics leaves its place to others.
func TestPanic(t *testing.T) {
	b := batch.New[*request](panicking{}, batch.Options{Out: 1, Shared: 1, Calls: call.New(call.Options{})})
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
		if !b.Idle() {
			t.Error("a panic has left a call behind")
		}
	}()
	_ = b.Do(t.Context(), &request{})
}
