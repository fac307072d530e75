package etcd

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/coordgo/coord/driver/call"
)

// watches are watches of single keys, or of all under a prefix, all on one stream, which is written and read by a
// goroutine each, however many they are. They begin at the present, and end with the stream: whoever wants more reads the
// store, and begins another one.
//
// Those of the client library are written and read by one goroutine: where thousands of watches end
// while thousands of events come, the server waits for its events to be read, and the client for
// its requests, for ever.
type watches struct {
	calls  *call.Calls
	server *remote
	kick   chan struct{} // there is something to write

	mu       sync.Mutex
	running  bool                    // there is a stream, or will be soon
	stop     context.CancelCauseFunc // ends the stream; nil: there was none
	heard    time.Time               // when the server said something last
	requests []*pb.WatchRequest      // to be written
	asked    []*watch                // for which the server was asked, or will be, and has not answered, in order
	begun    map[int64]*watch        // by the server's number
}

// watch is one of them.
type watch struct {
	saw   func(*mvccpb.Event) // called by the reader of the stream, which waits for it
	ready chan struct{}       // closed once the server watches
	lost  chan struct{}       // closed when it does not, or not any more

	// guarded by watches.mu
	number int64 // the server's, if begun has it
	ended  bool
}

// streamPause is the time from the end of a stream to the next one.
const streamPause = 50 * time.Millisecond

func newWatches(calls *call.Calls, server *remote) *watches {
	return &watches{calls: calls, server: server, kick: make(chan struct{}, 1), begun: make(map[int64]*watch)}
}

// begin watches the keys from key up to end, or only key if end is "". What saw is told may be older than this call, if it
// comes from a member that lags.
func (s *watches) begin(key, end string, saw func(*mvccpb.Event)) *watch {
	w := &watch{saw: saw, ready: make(chan struct{}), lost: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running = s.running || s.calls.Go(s.run); !s.running {
		close(w.lost)
		return w
	}
	s.asked = append(s.asked, w)
	create := &pb.WatchCreateRequest{Key: []byte(key), RangeEnd: []byte(end)}
	s.write(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}})
	return w
}

// end ends w; to do it again does nothing.
func (s *watches) end(w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.ended = true
	if s.begun[w.number] == w {
		delete(s.begun, w.number)
		s.cancel(w.number)
	}
}

// cancel asks the server to end a watch. watches.mu is held.
func (s *watches) cancel(number int64) {
	s.write(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: number}}})
}

// write has a request written. watches.mu is held.
func (s *watches) write(r *pb.WatchRequest) {
	s.requests = append(s.requests, r)
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// distrust gives up the stream if the server has said nothing on it since then, though it should have: a member that hangs
// pushes no event, and an application's client may never find out that its connection is dead.
func (s *watches) distrust(since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil && s.heard.Before(since) {
		s.stop(errSilent)
	}
}

// run keeps a stream up while something is to be watched.
func (s *watches) run() {
	for more := true; more; more = s.goesOn() {
		s.stream()
	}
}

// goesOn ends the watches of a stream that has ended, and reports after a pause whether there is to be another stream.
func (s *watches) goesOn() bool {
	s.mu.Lock()
	s.lose()
	s.mu.Unlock()
	_ = s.calls.Pause(s.calls.Life(), streamPause)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls.Closed() {
		s.lose()
	}
	s.running = len(s.asked) > 0
	return s.running
}

// lose ends all watches. watches.mu is held.
func (s *watches) lose() {
	for _, w := range slices.AppendSeq(s.asked, maps.Values(s.begun)) {
		close(w.lost)
	}
	s.requests, s.asked = nil, nil
	clear(s.begun)
}

// stream watches until the stream breaks, or is given up.
func (s *watches) stream() {
	ctx, stop := context.WithCancelCause(clientv3.WithRequireLeader(s.calls.Life()))
	defer stop(nil)
	s.mu.Lock()
	s.stop = stop
	s.mu.Unlock()
	stream, err := s.server.open(ctx, "Watch/Watch")
	if err != nil {
		return
	}
	var writer sync.WaitGroup
	defer writer.Wait()
	defer stop(nil)
	writer.Go(func() {
		defer stop(nil)
		s.writeTo(ctx, stream)
	})
	for began := time.Now(); ; {
		resp := new(pb.WatchResponse)
		if stream.RecvMsg(resp) != nil {
			return
		}
		// What was allowed once may be refused because the credentials of the stream have expired.
		if refused := resp.Created && resp.Canceled; refused && time.Since(began) > time.Minute {
			return
		}
		s.read(resp)
	}
}

// writeTo writes requests until the stream ends.
func (s *watches) writeTo(ctx context.Context, stream grpc.ClientStream) {
	for {
		s.mu.Lock()
		requests := s.requests
		s.requests = nil
		s.mu.Unlock()
		for _, r := range requests {
			if stream.SendMsg(r) != nil {
				return
			}
		}
		select {
		case <-s.kick:
		case <-ctx.Done():
			return
		}
	}
}

// read takes in what the server says.
func (s *watches) read(resp *pb.WatchResponse) {
	s.mu.Lock()
	s.heard = time.Now()
	w := s.begun[resp.WatchId]
	if resp.Created && len(s.asked) > 0 { // it answers in the order in which it is asked
		w, s.asked = s.asked[0], s.asked[1:]
		s.created(w, resp)
	} else if resp.Canceled && w != nil { // it could not keep up with what the store has compacted
		delete(s.begun, resp.WatchId)
		close(w.lost)
	}
	s.mu.Unlock()
	if w == nil {
		return
	}
	for _, ev := range resp.Events {
		w.saw(ev)
	}
}

// created takes in that the server watches w, unless it refuses. watches.mu is held.
func (s *watches) created(w *watch, resp *pb.WatchResponse) {
	switch {
	case resp.Canceled:
		close(w.lost)
	case w.ended:
		s.cancel(resp.WatchId)
	default:
		s.begun[resp.WatchId], w.number = w, resp.WatchId
		close(w.ready)
	}
}
