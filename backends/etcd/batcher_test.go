package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/coordgo/coord/driver"
)

// jam holds up as many requests as go out before steps wait for each other, and gives a function that lets
// them go. Later requests pass, and are counted.
func jam(t *testing.T, b *backend, m *meddler, later func(req any) error) (free func(), passed *atomic.Int32) {
	t.Helper()
	b.batcher = b.newBatcher(time.Hour)
	passed = new(atomic.Int32)
	var held atomic.Int32
	open := make(chan struct{})
	m.on(func(method string, req any, send func() error) error {
		if method != "Txn" {
			return send()
		}
		if held.Add(1) <= maxOut {
			<-open
			return send()
		}
		passed.Add(1)
		if err := later(req); err != nil {
			return err
		}
		return send()
	})
	var wg sync.WaitGroup
	for i := range maxOut {
		wg.Go(func() {
			if _, err := b.TryLock(context.Background(), fmt.Sprint("jam", i), request("jam", time.Minute)); err != nil && !b.calls.Closed() {
				t.Error(err)
			}
		})
	}
	until(t, hung, "the requests to be held up", func() bool { return held.Load() == maxOut })
	free = sync.OnceFunc(func() { close(open); wg.Wait() })
	t.Cleanup(free)
	return free, passed
}

// gathered reports whether n steps wait.
func (b *backend) gathered(n int) func() bool {
	return func() bool { return b.batcher.Waiting() == n }
}

func noMeddling(any) error { return nil }

// leased has b take the lease for a minute, so that nothing but steps is counted.
func leased(t *testing.T, b *backend) {
	t.Helper()
	must[driver.Grant](t)(b.TryLock(t.Context(), "lease", request("lease", time.Minute)))
}

// Steps that come while others are under way share one request, and each has its own answer.
func TestBatch(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	rival := connect(t, srv.Addr)
	taken := request("taken", time.Minute)
	must[driver.Grant](t)(rival.TryLock(t.Context(), "k3", taken))
	b, m := meddled(t, srv.Addr)
	leased(t, b)
	limit := must[driver.Limit](t)(driver.Limit{Rate: 1, Per: time.Hour}.Normal())
	must[driver.TakenOne](t)(b.TakeOne(t.Context(), "lease", limit, driver.Ask{Min: 1, N: 1}))
	own := request("own", time.Minute)
	must[driver.Grant](t)(b.TryLock(t.Context(), "own", own))

	free, passed := jam(t, b, m, noMeddling)
	const n = 20
	var wg sync.WaitGroup
	var tokens sync.Map
	lock := func(i int) {
		r := request("a", time.Minute)
		g, err := b.TryLock(t.Context(), fmt.Sprint("k", i), r)
		if i == 3 {
			if !errors.Is(err, driver.ErrLocked) {
				t.Errorf("a key that another holds: %v, want ErrLocked", err)
			}
			return
		}
		if err != nil {
			t.Error(err)
		}
		tokens.Store(i, g.Token)
	}
	for i := range n {
		wg.Go(func() { lock(i) })
	}
	wg.Go(func() {
		if err := b.Unlock(t.Context(), "own", own.ID); err != nil {
			t.Error(err)
		}
	})
	wg.Go(func() {
		one, err := b.TakeOne(t.Context(), "limit", limit, driver.Ask{Min: 1, N: 1})
		if err != nil || one.N != 1 {
			t.Errorf("%+v, %v: want the permit", one, err)
		}
	})
	until(t, hung, "the steps to gather", b.gathered(n+2))
	free()
	wg.Wait()
	if got := passed.Load(); got != 1 {
		t.Errorf("%d requests, want one for all", got)
	}
	m.on(nil)
	for i := range n {
		if i == 3 {
			continue
		}
		key := fmt.Sprint("k", i)
		h := must[driver.Holder](t)(b.Inspect(t.Context(), key))
		if token, _ := tokens.Load(i); int64(h.Token) != token {
			t.Errorf("%s: token %v, at the store %d", key, token, h.Token)
		}
	}
	if n := entriesOf(t, b.client, b.names.queue("own")).Count; n != 0 {
		t.Error("the hold that was unlocked is there")
	}
	if one := must[driver.TakenOne](t)(rival.TakeOne(t.Context(), "limit", limit, driver.Ask{Min: 1, N: 1})); one.N != 0 {
		t.Error("the permit was not debited")
	}
}

// Two steps of one place never share a request: they would not see each other, and both hold.
func TestBatchOfOnePlace(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	b, m := meddled(t, srv.Addr)
	leased(t, b)
	free, _ := jam(t, b, m, noMeddling)
	var wins, refusals atomic.Int32
	var wg sync.WaitGroup
	try := func() {
		switch _, err := b.TryLock(t.Context(), "k", request("a", time.Minute)); {
		case err == nil:
			wins.Add(1)
		case errors.Is(err, driver.ErrLocked):
			refusals.Add(1)
		default:
			t.Error(err)
		}
	}
	wg.Go(try)
	until(t, hung, "a step to wait", b.gathered(1))
	for range 4 {
		try()
	}
	free()
	wg.Wait()
	if wins.Load() != 1 || refusals.Load() != 4 {
		t.Errorf("%d granted, %d refused: want 1 and 4", wins.Load(), refusals.Load())
	}
}

// One that the server refuses spoils it for nobody else.
func TestBatchWithARefusal(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]error{
		"a lease that is gone": rpctypes.ErrGRPCLeaseNotFound,
		"too many operations":  rpctypes.ErrGRPCTooManyOps,
	} {
		t.Run(name, func(t *testing.T) {
			srv := shared(t)
			b, m := meddled(t, srv.Addr)
			leased(t, b)
			var once sync.Once
			free, passed := jam(t, b, m, func(req any) (err error) {
				if txn, ok := req.(*pb.TxnRequest); ok && len(txn.Success) > 1 {
					once.Do(func() { err = refusal })
				}
				return err
			})
			var wg sync.WaitGroup
			lock := func(i int) {
				if _, err := b.TryLock(t.Context(), fmt.Sprint("k", i), request("a", time.Minute)); err != nil {
					t.Error(err)
				}
			}
			for i := range 6 {
				wg.Go(func() { lock(i) })
			}
			until(t, hung, "the steps to gather", b.gathered(6))
			free()
			wg.Wait()
			if got := passed.Load(); got != 7 {
				t.Errorf("%d requests, want one for all, and one for each", got)
			}
			if want := map[bool]int{true: 3, false: maxOps}[errors.Is(refusal, rpctypes.ErrGRPCTooManyOps)]; b.ops.most() != want {
				t.Errorf("up to %d steps share a request, want %d", b.ops.most(), want)
			}
		})
	}
}

// When the answer to a shared request is lost, nobody knows the outcome, and each finds its own again.
func TestBatchWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	b, m := meddled(t, srv.Addr)
	leased(t, b)
	free, _ := jam(t, b, m, func(any) error { return errLost })
	const n = 5
	var requests [n]driver.Request
	var wg sync.WaitGroup
	lock := func(i int) {
		requests[i] = request("a", time.Minute)
		if _, err := b.TryLock(t.Context(), fmt.Sprint("k", i), requests[i]); err == nil || driver.Definite(err) {
			t.Errorf("%v, want an unknown outcome", err)
		}
	}
	for i := range n {
		wg.Go(func() { lock(i) })
	}
	until(t, hung, "the steps to gather", b.gathered(n))
	free()
	wg.Wait()
	m.on(nil)
	for i, r := range requests {
		must[driver.Grant](t)(b.TryLock(t.Context(), fmt.Sprint("k", i), r))
	}
}

// The caller of a step that waits may leave at once; what the step then makes is removed.
func TestBatchWhileRequestsHang(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	b, m := meddled(t, srv.Addr)
	leased(t, b)
	free, _ := jam(t, b, m, noMeddling)
	gone, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := b.TryLock(gone, "gone", request("gone", time.Minute))
		left <- err
	}()
	until(t, hung, "a step to wait", b.gathered(1))
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that left: %v, want the end of its context", err)
	}
	free()
	until(t, hung, "what a caller has left to be removed", func() bool {
		b.mu.Lock()
		making := slices.ContainsFunc(slices.Collect(maps.Values(b.entries)), func(e *entry) bool { return e.making != nil })
		b.mu.Unlock()
		return !making && entriesOf(t, b.client, b.names.queue("gone")).Count == 0
	})
}

// Close ends steps that wait.
func TestBatchAndClose(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	b, m := meddled(t, srv.Addr)
	leased(t, b)
	free, _ := jam(t, b, m, noMeddling)
	ended := make(chan error, 1)
	go func() {
		_, err := b.TryLock(context.Background(), "k", request("a", time.Minute))
		ended <- err
	}()
	until(t, hung, "a step to wait", b.gathered(1))
	b.mu.Lock()
	b.calls.Close()
	b.mu.Unlock()
	if err := <-ended; !errors.Is(err, driver.ErrClosed) {
		t.Errorf("a step that waited for its turn: %v, want ErrClosed", err)
	}
	free()
}

// Steps share no more than a server takes in one request, nor a client sends.
func TestBatchesOfLargeSteps(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	b, m := meddled(t, srv.Addr)
	leased(t, b)
	free, passed := jam(t, b, m, noMeddling)
	value := strings.Repeat("x", 60<<10)
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			name := fmt.Sprint("large", i)
			_, err := b.perform(t.Context(), name, &pb.TxnRequest{Success: []*pb.RequestOp{putOf(name, value, 0)}})
			if err != nil {
				t.Error(err)
			}
		})
	}
	// Eight at a time go off.
	until(t, hung, "the last four to wait", func() bool { return passed.Load() == 7 && b.gathered(4)() })
	free()
	wg.Wait()
	if n := passed.Load(); n != 8 {
		t.Errorf("%d requests for 60 steps, want 8", n)
	}
}
