package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// errSilent: a member of etcd did not answer for so long that the next request should go to another.
var errSilent = errors.New("etcd: the server did not answer in time")

// heartbeats send the keepalives of all leases of a client one after the other, on one stream, which stays open. A stream for
// each would log in for each, on a server with a password.
type heartbeats struct {
	life   context.Context
	server *remote
	login  time.Duration // how long it may take to open a stream, if that is longer than patience
	turn   ctxMutex      // held by whoever sends a keepalive, or opens the stream

	stream grpc.ClientStream // nil: none is open
	ctx    context.Context   // ends with the stream; its cause says why
	end    context.CancelCauseFunc
}

// loginWithin is how long a server may take to check a password: it does so for one client after the other, a tenth of a
// second each or so.
const loginWithin = 2 * time.Second

func newHeartbeats(life context.Context, server *remote) *heartbeats {
	h := &heartbeats{life: life, server: server}
	if server.client.Username != "" {
		h.login = loginWithin
	}
	return h
}

// prepare opens a stream where that takes a login, so that it is there when the first keepalive is due.
func (h *heartbeats) prepare() {
	if h.login == 0 {
		return
	}
	unlock, err := h.turn.lock(h.life)
	if err != nil {
		return
	}
	defer unlock()
	if h.stream == nil {
		_ = h.bounded(h.life, h.login, func() error { return nil })
	}
}

// send keeps a lease alive. A TTL of 0 or less says that there is no such lease. A server that does not answer within
// patience is given up with errSilent: the next keepalive opens another stream. Its caller holds turn.
func (h *heartbeats) send(ctx context.Context, id int64, patience time.Duration) (ttl int64, err error) {
	for {
		fresh := h.stream == nil
		err = h.bounded(ctx, patience, func() (err error) {
			ttl, err = h.ask(id)
			return err
		})
		// A stream that has been open may have broken while it rested.
		if err == nil || fresh || ctx.Err() != nil || errors.Is(err, errSilent) {
			return ttl, err
		}
	}
}

// bounded opens a stream if there is none, and does what is to be done on it, until ctx ends or the server has been silent for
// too long. After an error there is no stream.
func (h *heartbeats) bounded(ctx context.Context, patience time.Duration, do func() error) (err error) {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	opening := patience
	if h.stream == nil {
		h.ctx, h.end = context.WithCancelCause(clientv3.WithRequireLeader(h.life))
		opening = max(patience, h.login)
	}
	end := h.end
	defer context.AfterFunc(ctx, func() { end(ended(ctx)) })()
	timer := time.AfterFunc(opening, func() { end(errSilent) })
	defer timer.Stop()
	if h.stream == nil {
		h.stream, err = h.server.open(h.ctx, "Lease/LeaseKeepAlive")
		timer.Reset(patience)
	}
	if err == nil {
		err = do()
	}
	if err != nil {
		if h.ctx.Err() != nil {
			err = context.Cause(h.ctx)
		}
		end(err)
		h.stream = nil
	}
	return err
}

// ask sends a keepalive, and waits for the answer.
func (h *heartbeats) ask(id int64) (ttl int64, err error) {
	if err := h.stream.SendMsg(&pb.LeaseKeepAliveRequest{ID: id}); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	var resp pb.LeaseKeepAliveResponse
	if err := h.stream.RecvMsg(&resp); err != nil { // it says why it could not be written to
		return 0, err
	}
	if resp.ID != id {
		return 0, fmt.Errorf("etcd: the server answered for a lease that it was not asked for, %x", resp.ID)
	}
	return resp.TTL, nil
}
