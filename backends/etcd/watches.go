package etcd

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// watches are watches of single keys, or of all under a prefix, all on one stream, which is written and read by a
// goroutine each, however many they are.
//
// Those of the client library are written and read by one goroutine: where thousands of watches end
// while thousands of events come, the server waits for its events to be read, and the client for
// its requests, for ever.
type watches struct {
	life   context.Context
	ping   string // a key that nobody puts
	server pb.WatchClient
	kick   chan struct{} // there is something to write

	checkEvery time.Duration
	heard      atomic.Bool // the server has said something since the last look

	mu     sync.Mutex
	live   map[*watch]struct{}
	wanted []*watch         // to be begun, one after the other
	making *watch           // the server is asked to begin it
	begun  map[int64]*watch // by the server's number
	over   []int64          // to be ended
}

// watch is one of them.
type watch struct {
	key   string
	end   string // the first key behind those that are watched; "" for one key
	of    viewer
	ready chan struct{} // closed once the server watches; may be nil

	// guarded by watches.mu
	from   int64 // the revision to begin at; 0: the present one
	number int64 // the server's, if begun has it
	ended  bool
}

// viewer is whoever wants a watch. It is called by the reader of the stream, which waits for it, and
// never after the end of the watch, unless that comes at the same time.
type viewer interface {
	saw(*mvccpb.Event)
	// blind says that the watch has ended, because the server refuses it or has compacted what
	// it was to begin with.
	blind()
}

func newWatches(life context.Context, server pb.WatchClient, ping string) *watches {
	return &watches{
		life: life, ping: ping, server: server,
		kick: make(chan struct{}, 1), checkEvery: aliveCheckEvery,
		live: make(map[*watch]struct{}), begun: make(map[int64]*watch),
	}
}

// begin has w watched until its end, over all streams: no event is missed in between.
func (s *watches) begin(w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.wanted) > 2*len(s.live)+16 { // while there is no stream
		s.wanted = slices.DeleteFunc(s.wanted, func(w *watch) bool { return w.ended })
	}
	s.live[w] = struct{}{}
	s.wanted = append(s.wanted, w)
	s.wake()
}

// end ends w; to do it again does nothing.
func (s *watches) end(w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(w)
	if s.begun[w.number] == w {
		delete(s.begun, w.number)
		s.over = append(s.over, w.number)
		s.wake()
	}
}

// forget ends w here. watches.mu is held.
func (s *watches) forget(w *watch) {
	w.ended = true
	delete(s.live, w)
}

func (s *watches) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// run keeps a stream up while something is watched.
func (s *watches) run() {
	const least, most = 10 * time.Millisecond, 100 * time.Millisecond
	pause := least
	for s.await() {
		began := time.Now()
		s.stream()
		if s.restart(); time.Since(began) > time.Second {
			pause = least
		}
		if sleep(s.life, pause) != nil {
			return
		}
		pause = min(2*pause, most)
	}
}

// await waits until something is to be watched; false: the backend was closed.
func (s *watches) await() bool {
	for {
		s.mu.Lock()
		n := len(s.live)
		s.mu.Unlock()
		if n > 0 {
			return true
		}
		select {
		case <-s.kick:
		case <-s.life.Done():
			return false
		}
	}
}

// restart has everything begun again, after the end of a stream.
func (s *watches) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.begun)
	s.making, s.over, s.wanted = nil, nil, nil
	for w := range s.live {
		s.wanted = append(s.wanted, w)
	}
}

// stream watches until the stream breaks.
func (s *watches) stream() {
	ctx, end := context.WithCancelCause(clientv3.WithRequireLeader(s.life))
	cancel := func() { end(nil) }
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	stream, err := s.server.Watch(ctx)
	if err != nil {
		return
	}
	others.Go(func() {
		defer cancel()
		s.write(ctx, stream)
	})
	others.Go(func() {
		s.checkAlive(ctx)
		end(errSilent)
	})
	for began := time.Now(); ; {
		resp, err := stream.Recv()
		if err != nil {
			return
		}
		// What was allowed once may be refused because the stream's credentials have expired.
		if refused := resp.Created && resp.Canceled && resp.CompactRevision == 0; refused && time.Since(began) > time.Minute {
			return
		}
		s.read(resp)
	}
}

// aliveCheckEvery is how often a client makes sure that it would hear an event, if it hears nothing. A member that hangs pushes
// none, and an application's client may never find out that its connection is dead.
const aliveCheckEvery = recheckEvery

// checkAlive returns when the stream ends, or the server has been silent on it though it was asked to begin a watch. What is
// asked for is of no interest: the server answers that at once, which it does not when it is asked for progress.
func (s *watches) checkAlive(ctx context.Context) {
	for sleep(ctx, s.checkEvery) == nil {
		s.mu.Lock()
		idle := len(s.live) == 0
		s.mu.Unlock()
		if s.heard.Swap(false) || idle {
			continue
		}
		w := &watch{key: s.ping, of: unseen{}, ready: make(chan struct{})}
		ready := w.ready
		s.begin(w)
		timer := time.NewTimer(s.checkEvery)
		select {
		case <-ready:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		s.end(w)
		if !s.heard.Load() {
			return
		}
	}
}

// unseen wants to see nothing.
type unseen struct{}

func (unseen) saw(*mvccpb.Event) {}
func (unseen) blind()            {}

// write asks the server for what is to begin and to end.
func (s *watches) write(ctx context.Context, stream pb.Watch_WatchClient) {
	for {
		req := s.next()
		if req == nil {
			select {
			case <-s.kick:
			case <-ctx.Done():
				return
			}
			continue
		}
		if stream.Send(req) != nil {
			return
		}
	}
}

// next gives the next request; nil if there is none. A watch is begun when the one before was: so it is known
// whose the server's answer is.
func (s *watches) next() *pb.WatchRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.over) > 0 {
		number := s.over[0]
		s.over = s.over[1:]
		return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: number}}}
	}
	for s.making == nil && len(s.wanted) > 0 {
		w := s.wanted[0]
		s.wanted = s.wanted[1:]
		if !w.ended {
			s.making = w
			create := &pb.WatchCreateRequest{Key: []byte(w.key), RangeEnd: []byte(w.end), StartRevision: w.from}
			return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}}
		}
	}
	return nil
}

// read takes in what the server says.
func (s *watches) read(resp *pb.WatchResponse) {
	s.heard.Store(true)
	w, live := s.sort(resp)
	if !live {
		return
	}
	for _, ev := range resp.Events {
		w.of.saw(ev)
	}
	if resp.Canceled {
		w.of.blind()
	}
}

// sort finds whose resp is, and notes what it says of the watch.
func (s *watches) sort(resp *pb.WatchResponse) (w *watch, live bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if resp.Created {
		w, s.making = s.making, nil
		s.wake()
		s.created(w, resp)
	} else {
		w = s.begun[resp.WatchId]
	}
	if w == nil || w.ended {
		return nil, false
	}
	if n := len(resp.Events); n > 0 {
		w.from = resp.Events[n-1].Kv.ModRevision + 1
	}
	if resp.Canceled {
		delete(s.begun, resp.WatchId)
		s.forget(w)
	}
	return w, true
}

// created takes in that the server watches w, unless it refuses. watches.mu is held.
func (s *watches) created(w *watch, resp *pb.WatchResponse) {
	switch {
	case resp.Canceled:
	case w == nil || w.ended:
		s.over = append(s.over, resp.WatchId)
	default:
		s.begun[resp.WatchId], w.number = w, resp.WatchId
		if w.from == 0 {
			w.from = resp.Header.GetRevision() + 1
		}
		if w.ready != nil {
			close(w.ready)
			w.ready = nil
		}
	}
}
