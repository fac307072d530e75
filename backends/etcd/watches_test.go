package etcd

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/coordgo/coord/driver"
)

// narrow takes no request while the client has not come back for more than it was given, as a
// stream does whose buffers are full both ways.
type narrow struct {
	grpc.ClientStream
	stuck   *atomic.Bool // a request could not be sent for long
	mu      sync.Mutex
	reading chan struct{} // closed while the client reads
}

func (n *narrow) RecvMsg(m any) error {
	n.mu.Lock()
	close(n.reading)
	n.mu.Unlock()
	err := n.ClientStream.RecvMsg(m)
	n.mu.Lock()
	n.reading = make(chan struct{})
	n.mu.Unlock()
	return err
}

func (n *narrow) SendMsg(m any) error {
	n.mu.Lock()
	reading := n.reading
	n.mu.Unlock()
	select {
	case <-reading:
	case <-time.After(hung):
		n.stuck.Store(true)
	case <-n.Context().Done():
		return n.Context().Err()
	}
	return n.ClientStream.SendMsg(m)
}

// Many holds that are given back at once, and as many waiters that are served at once, do not stop the
// watches of others.
func TestManyWatchesEndAtOnce(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	var stuck atomic.Bool
	b := streamed(t, func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		stream, err := streamer(ctx, desc, cc, method, opts...)
		if err != nil || !strings.HasSuffix(method, "/Watch") {
			return stream, err
		}
		return &narrow{ClientStream: stream, stuck: &stuck, reading: make(chan struct{})}, nil
	}, srv.Addr)
	var lost atomic.Int32
	b.NotifyLost(func(string, string, error) { lost.Add(1) })
	const keys = 200
	var holders, waiters [keys]driver.Request
	each := func(fn func(i int, key string) error) {
		t.Helper()
		var wg sync.WaitGroup
		for i := range keys {
			wg.Go(func() {
				if err := fn(i, fmt.Sprint("k", i)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	for i := range keys {
		holders[i], waiters[i] = request("holder", time.Minute), request("waiter", time.Minute)
	}
	each(func(i int, key string) error {
		_, err := b.TryLock(t.Context(), key, holders[i])
		return err
	})
	var served [keys]<-chan result
	for i := range keys {
		served[i] = startWaiter(t, t.Context(), b, fmt.Sprint("k", i), waiters[i], 2)
	}
	until(t, hung, "the holds to be watched", b.guardsAll)
	each(func(i int, key string) error { return b.Unlock(t.Context(), key, holders[i].ID) })
	for _, done := range served {
		if got := soonResult(t, done, hung, "a waiter to be served"); got.err != nil {
			t.Error(got.err)
		}
	}
	until(t, hung, "the holds to be watched", b.guardsAll)
	each(func(i int, key string) error { return b.Unlock(t.Context(), key, waiters[i].ID) })
	if n := lost.Load(); n != 0 {
		t.Errorf("%d losses", n)
	}
	must[driver.Grant](t)(b.TryLock(t.Context(), "late", request("late", time.Minute)))
	until(t, hung, "the hold to be watched", b.guardsAll)
	_, err := b.client.Delete(t.Context(), b.names.queue("late"), clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	until(t, hung, "the loss to be told", func() bool { return lost.Load() == 1 })
	if stuck.Load() {
		t.Error("requests and events wait for each other")
	}
}

// However many holds and waiters are watched, no goroutine waits for any of the holds.
func TestWatchesTakeNoGoroutines(t *testing.T) {
	_, b := open(t)
	const keys = 300
	must[driver.Grant](t)(b.TryLock(t.Context(), "first", request("holder", time.Minute)))
	until(t, hung, "the first hold to be watched", func() bool { return b.guards.count() == 1 })
	before := runtime.NumGoroutine()
	for i := range keys {
		must[driver.Grant](t)(b.TryLock(t.Context(), fmt.Sprint("k", i), request("holder", time.Minute)))
	}
	until(t, hung, "the holds to be watched", func() bool { return b.guards.count() == keys+1 })
	if n := runtime.NumGoroutine() - before; n > keys/10 {
		t.Errorf("%d goroutines more for %d holds", n, keys)
	}
}

// count is how many watches the server has begun.
func (s *watches) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.begun)
}

// Watches outlive their stream: what happens while there is none is told when there is one again.
func TestWatchesOutliveTheirStream(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	var broken atomic.Bool
	var mu sync.Mutex
	var cancels []context.CancelFunc
	b := streamed(t, func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		if !strings.HasSuffix(method, "/Watch") {
			return streamer(ctx, desc, cc, method, opts...)
		}
		if broken.Load() {
			return nil, errNoConnection
		}
		ctx, cancel := context.WithCancel(ctx)
		mu.Lock()
		cancels = append(cancels, cancel)
		mu.Unlock()
		return streamer(ctx, desc, cc, method, opts...)
	}, srv.Addr)
	lost := make(chan string, 10)
	b.NotifyLost(func(key, _ string, _ error) { lost <- key })
	for _, key := range []string{"gone", "kept", "unlocked"} {
		must[driver.Grant](t)(b.TryLock(t.Context(), key, request(key, time.Minute)))
	}
	until(t, hung, "the holds to be watched", func() bool { return b.guards.count() == 3 })
	broken.Store(true)
	mu.Lock()
	for _, cancel := range cancels {
		cancel()
	}
	mu.Unlock()
	until(t, hung, "the streams to end", func() bool { return b.guards.count() == 0 })
	must[*clientv3.DeleteResponse](t)(b.client.Delete(t.Context(), b.names.queue("gone"), clientv3.WithPrefix()))
	b.mu.Lock()
	var id string
	for p := range b.entries {
		if p.key == "unlocked" {
			id = p.id
		}
	}
	b.mu.Unlock()
	if err := b.Unlock(t.Context(), "unlocked", id); err != nil {
		t.Fatal(err)
	}
	broken.Store(false)
	select {
	case key := <-lost:
		if key != "gone" {
			t.Errorf("%s was lost", key)
		}
	case <-time.After(hung):
		t.Fatal("the loss was not told")
	}
	until(t, hung, "the other to be watched", func() bool { return b.guards.count() == 1 })
	if n := len(lost); n > 0 {
		t.Errorf("%d more losses", n)
	}
}

// A stream on which the server keeps silent is given up for another, though nobody tells that it is dead.
func TestSilentWatchesBeginAnew(t *testing.T) {
	t.Parallel()
	srv, holder := open(t)
	r := request("holder", time.Hour)
	must[driver.Grant](t)(holder.TryLock(t.Context(), "k", r))
	var silent atomic.Int32
	b := streamed(t, func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		stream, err := streamer(ctx, desc, cc, method, opts...)
		if err == nil && strings.HasSuffix(method, "/Watch") && silent.Add(-1) >= 0 {
			return silentStream{stream}, nil
		}
		return stream, err
	}, srv.Addr)
	b.waits.checkEvery = 50 * time.Millisecond
	silent.Store(2)
	done := startWaiter(t, t.Context(), b, "k", request("waiter", time.Hour), 2)
	until(t, hung, "the third stream", func() bool { return b.waits.count() > 0 })
	if err := holder.Unlock(t.Context(), "k", r.ID); err != nil {
		t.Fatal(err)
	}
	if got := soonResult(t, done, hung, "the waiter to be granted"); got.err != nil {
		t.Error(got.err)
	}
}
