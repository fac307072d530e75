package server

import (
	"context"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordgo/coord/server/coordpb"
)

// thread is a held stream of a holder of the model: its messages keep their order, are late, and it may break.
type thread struct {
	grpc.ServerStream
	ctx     context.Context
	w       *world
	p       *process
	asks    chan *coordpb.HoldRequest // closed: the holder has closed its side
	answers chan *coordpb.HoldAnswer
}

func (s *thread) Context() context.Context { return s.ctx }

func (s *thread) Recv() (*coordpb.HoldRequest, error) {
	select {
	case q, ok := <-s.asks:
		if !ok {
			return nil, io.EOF
		}
		s.w.rest(s.ctx, s.w.slow)
		return q, s.ctx.Err()
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

// Send is late, as where a server stops before it sends what it has decided.
func (s *thread) Send(a *coordpb.HoldAnswer) error {
	s.w.rest(s.ctx, s.w.slow)
	if s.p.killed.Load() {
		return context.Canceled
	}
	select {
	case s.answers <- a:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// open begins a stream, which breaks when leave is called, or by itself.
func (w *world) open(ctx context.Context, p *process) (s *thread, leave context.CancelFunc) {
	ctx = context.WithValue(ctx, callerKey{}, p.callers.everybody)
	ctx, leave = context.WithCancel(ctx)
	if w.draw(w.lossy) {
		ctx, leave = context.WithTimeout(ctx, w.span(20*time.Second))
	}
	s = &thread{ctx: ctx, w: w, p: p, asks: make(chan *coordpb.HoldRequest, 1), answers: make(chan *coordpb.HoldAnswer)}
	w.drains.Go(func() {
		defer leave()
		err := (&locksService{s: p.Server}).Hold(s)
		if code := status.Code(statusOf(err)); code == codes.Internal || code == codes.InvalidArgument {
			w.t.Errorf("a held stream: %v", err)
		}
	})
	return s, leave
}

// stream holds the keys by a stream for a while, as hold does by requests.
func (h *holder) stream(ctx context.Context, p *process, window time.Duration) {
	s, leave := h.open(ctx, p)
	defer leave() // where it has not closed its side, that is a broken connection
	sent := time.Now()
	s.asks <- &coordpb.HoldRequest{
		WindowMs: window.Milliseconds(),
		Acquire:  &coordpb.AcquireRequest{Keys: h.keys, TtlMs: h.ttl.Milliseconds(), WaitMs: h.span(20 * time.Second).Milliseconds()},
	}
	var beliefs []*belief
	ends := sent.Add(h.span(30 * time.Second))
	for {
		var a *coordpb.HoldAnswer
		select {
		case a = <-s.answers:
		case <-s.ctx.Done():
			return
		}
		until := h.until(sent, ms(a.GetRemainingMs()))
		switch {
		case beliefs != nil:
			for _, b := range beliefs {
				h.judge.extend(b, until)
			}
		case time.Now().Before(until):
			for _, k := range a.GetKeys() {
				beliefs = append(beliefs, h.judge.begin(h.name, k.GetKey(), k.GetToken(), until))
			}
		}
		if time.Now().After(ends) {
			break
		}
		h.rest(s.ctx, window*[]time.Duration{1, 3}[h.number(2)]/2) // too late, now and then
		sent = time.Now()
		s.asks <- &coordpb.HoldRequest{}
	}
	if h.draw(0.7) {
		h.judge.end(beliefs)
		close(s.asks)
		<-s.ctx.Done() // Hold has returned, or the stream has broken
	}
}
