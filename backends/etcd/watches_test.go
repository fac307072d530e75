package etcd

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

// Many waiters that are served at once do not stop the watches of others.
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
	each(func(i int, key string) error { return b.Unlock(t.Context(), key, holders[i].ID) })
	for _, done := range served {
		if got := soonResult(t, done, hung, "a waiter to be served"); got.err != nil {
			t.Error(got.err)
		}
	}
	each(func(i int, key string) error { return b.Unlock(t.Context(), key, waiters[i].ID) })
	holder := request("holder", time.Minute)
	must[driver.Grant](t)(b.TryLock(t.Context(), "late", holder))
	late := startWaiter(t, t.Context(), b, "late", request("waiter", time.Minute), 2)
	until(t, hung, "the holder to be watched", func() bool { return b.waits.count() == 1 })
	if err := b.Unlock(t.Context(), "late", holder.ID); err != nil {
		t.Fatal(err)
	}
	if got := soonResult(t, late, hung, "the late waiter to be served"); got.err != nil {
		t.Error(got.err)
	}
	if stuck.Load() {
		t.Error("requests and events wait for each other")
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
	holder := connect(t, srv.Addr)
	var holds, waits [2]driver.Request
	var served [2]<-chan result
	for i, key := range []string{"gone", "kept"} {
		holds[i], waits[i] = request("holder", time.Hour), request("waiter", time.Hour)
		must[driver.Grant](t)(holder.TryLock(t.Context(), key, holds[i]))
		served[i] = startWaiter(t, t.Context(), b, key, waits[i], 2)
	}
	until(t, hung, "the holders to be watched", func() bool { return b.waits.count() == 2 })
	broken.Store(true)
	mu.Lock()
	for _, cancel := range cancels {
		cancel()
	}
	mu.Unlock()
	until(t, hung, "the stream to end", func() bool { return b.waits.count() == 0 })
	if err := holder.Unlock(t.Context(), "gone", holds[0].ID); err != nil {
		t.Fatal(err)
	}
	broken.Store(false)
	if got := soonResult(t, served[0], hung, "the waiter to be granted"); got.err != nil {
		t.Error(got.err)
	}
	until(t, hung, "the other holder to be watched again", func() bool { return b.waits.count() == 1 })
	stillWaiting(t, served[1], "though the holder is there")
	if err := holder.Unlock(t.Context(), "kept", holds[1].ID); err != nil {
		t.Fatal(err)
	}
	if got := soonResult(t, served[1], hung, "the other waiter to be granted"); got.err != nil {
		t.Error(got.err)
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
	b.recheck = time.Second
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
