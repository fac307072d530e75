package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/coordgo/coord/driver/call"
)

// errSilent: a member of etcd did not answer for so long that the next request should go to another.
var errSilent = errors.New("etcd: the server did not answer in time")

// heartbeats send the keepalives of all leases of a client on one stream, which stays open. A stream for each would log in
// for each, on a server with a password.
type heartbeats struct {
	calls  *call.Calls
	server *remote
	login  time.Duration // how long it may take to open a stream, if that is longer than patience

	mu     sync.Mutex
	stream *heartbeatStream // nil: none is open
}

// heartbeat is a keepalive that was sent, or is to be.
type heartbeat struct {
	id    int64
	reply chan int64 // the TTL that the server gave
}

// heartbeatStream is one stream. The server answers in the order in which it is asked.
type heartbeatStream struct {
	ctx  context.Context // ends with the stream; its cause says why
	end  context.CancelCauseFunc
	open chan struct{} // closed once there is a connection, with a token if the server wants one
	out  chan *heartbeat

	mu   sync.Mutex
	sent []*heartbeat // and not answered
}

// loginWithin is how long a server may take to check a password: it does so for one client after the other, a tenth of a
// second each or so.
const loginWithin = 2 * time.Second

func newHeartbeats(calls *call.Calls, server *remote) *heartbeats {
	h := &heartbeats{calls: calls, server: server}
	if server.client.Username != "" {
		h.login = loginWithin
	}
	return h
}

// prepare opens a stream where that takes a login, so that it is there when the first keepalive is due.
func (h *heartbeats) prepare() {
	if h.login > 0 {
		h.current()
	}
}

// send keeps a lease alive. A TTL of 0 or less says that there is no such lease. A server that does not answer within
// patience is given up with errSilent: the next keepalive opens another stream.
func (h *heartbeats) send(ctx context.Context, id int64, patience time.Duration) (ttl int64, err error) {
	for {
		s, fresh := h.current()
		if s == nil {
			return 0, errClosing
		}
		ttl, err = s.send(ctx, id, max(patience, h.login), patience)
		// A stream that has been open may have broken while it rested.
		if err == nil || fresh || ctx.Err() != nil || errors.Is(err, errSilent) {
			return ttl, err
		}
	}
}

// current gives the stream that is open, or a fresh one; nil after Close.
func (h *heartbeats) current() (s *heartbeatStream, fresh bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stream != nil && h.stream.ctx.Err() == nil {
		return h.stream, false
	}
	s = &heartbeatStream{open: make(chan struct{}), out: make(chan *heartbeat)}
	s.ctx, s.end = context.WithCancelCause(clientv3.WithRequireLeader(h.calls.Life()))
	if !h.calls.Go(func() { s.run(h.server) }) {
		s.end(errClosing)
		return nil, false
	}
	h.stream = s
	return s, true
}

// send waits for the stream to be open, and then for the answer to one keepalive.
func (s *heartbeatStream) send(ctx context.Context, id int64, opening, patience time.Duration) (int64, error) {
	b := &heartbeat{id: id, reply: make(chan int64, 1)}
	timer := time.NewTimer(opening)
	defer timer.Stop()
	open, out := s.open, (chan *heartbeat)(nil)
	for {
		select {
		case <-open:
			timer.Reset(patience)
			open, out = nil, s.out
		case out <- b:
			out = nil
		case ttl := <-b.reply:
			return ttl, nil
		case <-timer.C:
			s.end(errSilent)
		case <-s.ctx.Done():
			return 0, context.Cause(s.ctx)
		case <-ctx.Done():
			return 0, ended(ctx)
		}
	}
}

// run opens the stream, and writes and reads it until it breaks.
func (s *heartbeatStream) run(server *remote) {
	stream, err := server.open(s.ctx, "Lease/LeaseKeepAlive")
	if err != nil {
		s.end(err)
		return
	}
	close(s.open)
	var reader sync.WaitGroup
	defer reader.Wait()
	reader.Go(func() { s.end(s.read(stream)) })
	s.write(stream)
}

// write writes until the stream ends. Why it cannot be written to is what its reader is told.
func (s *heartbeatStream) write(stream grpc.ClientStream) {
	for {
		select {
		case b := <-s.out:
			s.mu.Lock()
			s.sent = append(s.sent, b)
			s.mu.Unlock()
			if stream.SendMsg(&pb.LeaseKeepAliveRequest{ID: b.id}) != nil {
				return
			}
		case <-s.ctx.Done():
			return
		}
	}
}

func (s *heartbeatStream) read(stream grpc.ClientStream) error {
	for {
		resp := new(pb.LeaseKeepAliveResponse)
		if err := stream.RecvMsg(resp); err != nil {
			return err
		}
		s.mu.Lock()
		var b *heartbeat
		if len(s.sent) > 0 {
			b, s.sent = s.sent[0], s.sent[1:]
		}
		s.mu.Unlock()
		if b == nil || b.id != resp.ID {
			return fmt.Errorf("etcd: the server answered for a lease that it was not asked for, %x", resp.ID)
		}
		b.reply <- resp.TTL
	}
}
