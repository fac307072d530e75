package server

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/coordgo/coord/server/coordpb"
)

// heldStream is a held stream of a client.
type heldStream struct {
	t      *testing.T
	stream coordpb.Locks_HoldClient
	sent   time.Time
}

func (c *client) hold(t *testing.T, ctx context.Context, q *coordpb.HoldRequest) *heldStream {
	t.Helper()
	h := &heldStream{t: t, stream: done(c.Hold(ctx))(t)}
	h.send(q)
	return h
}

func (h *heldStream) send(q *coordpb.HoldRequest) {
	h.t.Helper()
	h.sent = time.Now()
	if err := h.stream.Send(q); err != nil {
		h.t.Fatal(err)
	}
}

// answered is the answer to what was sent last, and until when the holder may believe.
func (h *heldStream) answered() (a *coordpb.HoldAnswer, until time.Time) {
	h.t.Helper()
	a = done(h.stream.Recv())(h.t)
	return a, h.sent.Add(ms(a.GetRemainingMs()))
}

// fails is the error that ends the stream.
func (h *heldStream) fails(code codes.Code, reason string) {
	h.t.Helper()
	_, err := h.stream.Recv()
	wantCode(h.t, err, code, reason)
}

func job(ttl, window int64) *coordpb.HoldRequest {
	return &coordpb.HoldRequest{Acquire: &coordpb.AcquireRequest{Key: "job", TtlMs: ttl}, WindowMs: window}
}

// A stream holds for as long as its holder asks, each answer promises no more than the window, and its end frees the key.
func TestHoldStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startGRPC(t, "")
		c, ctx := w.dial(""), t.Context()
		h := c.hold(t, ctx, job(30_000, 0))
		first, until := h.answered()
		if first.GetTtlMs() != 1000 || first.GetRemainingMs() > 1000 || first.GetRemainingMs() < 980 || first.GetId() != "" || first.GetToken() < 1 {
			t.Errorf("at first: %v", first)
		}
		for range 300 { // for longer than the lease
			time.Sleep(333 * time.Millisecond)
			h.send(&coordpb.HoldRequest{})
			a, next := h.answered()
			if a.GetToken() != first.GetToken() || next.Before(until) || a.GetRemainingMs() < 980 {
				t.Fatalf("until %v, then %v: %v", until, next, a)
			}
			until = next
		}
		_, err := c.Acquire(ctx, &coordpb.AcquireRequest{Key: "job"})
		wantCode(t, err, codes.Aborted, "locked")
		if err := h.stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := h.stream.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("the end: %v", err)
		}
		if next := done(c.Acquire(ctx, &coordpb.AcquireRequest{Key: "job"}))(t); next.GetToken() <= first.GetToken() {
			t.Errorf("token %d after %d", next.GetToken(), first.GetToken())
		}
	})
}

// The key of a holder that is frozen, or whose connection breaks, is free about a second after its last message, when
// it must know that, and not before.
func TestHoldStreamEnds(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, c *client, h *heldStream, leave func()){
		"frozen":     func(*testing.T, *client, *heldStream, func()) {},
		"cancelled":  func(_ *testing.T, _ *client, _ *heldStream, leave func()) { leave() },
		"disconnect": func(_ *testing.T, c *client, _ *heldStream, _ func()) { _ = c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := startGRPC(t, "")
				c := w.dial("")
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				h := c.hold(t, ctx, job(30_000, 500))
				h.answered()
				time.Sleep(100 * time.Millisecond)
				h.send(&coordpb.HoldRequest{})
				_, until := h.answered()
				end(t, c, h, leave)
				done(w.dial("").Acquire(t.Context(), &coordpb.AcquireRequest{Key: "job", WaitMs: 60_000}))(t)
				if late := time.Since(until); late < 0 || late > 20*time.Millisecond {
					t.Errorf("the key is free %v after the holder must know", late)
				}
				if name == "frozen" {
					h.fails(codes.FailedPrecondition, "lost")
				}
				synctest.Wait()
				if n := w.callers.everybody.requests.Load(); n != 0 {
					t.Errorf("%d requests are under way", n)
				}
			})
		})
	}
}

// Messages that are sent ahead are answered one for one, and the answer after a wait counts from the first message.
func TestHoldStreamWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startGRPC(t, "")
		c, ctx := w.dial(""), t.Context()
		a := done(c.Acquire(ctx, &coordpb.AcquireRequest{Key: "job"}))(t)
		q := job(30_000, 250)
		q.Acquire.WaitMs = 60_000
		h := c.hold(t, ctx, q)
		h.send(&coordpb.HoldRequest{})
		h.send(&coordpb.HoldRequest{})
		time.Sleep(10 * time.Second)
		done(c.Release(ctx, &coordpb.ReleaseRequest{Id: a.GetId()}))(t)
		for range 3 {
			if got, _ := h.answered(); got.GetRemainingMs() > 250 || got.GetTtlMs() != 250 {
				t.Errorf("%v", got)
			}
		}
		h.send(&coordpb.HoldRequest{})
		if _, until := h.answered(); time.Until(until) < 200*time.Millisecond {
			t.Errorf("%v left of a window of 250ms", time.Until(until))
		}
	})
}

// A server that drains frees the key of a stream when its holder has closed it, or must know.
func TestHoldStreamDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startGRPC(t, "")
		h := w.dial("").hold(t, t.Context(), job(30_000, 1000))
		_, until := h.answered()
		ended := make(chan error)
		go func() { ended <- w.end() }()
		synctest.Wait()
		time.Sleep(300 * time.Millisecond)
		h.send(&coordpb.HoldRequest{})
		if a, last := h.answered(); !a.GetDraining() || last.After(until.Add(time.Millisecond)) {
			t.Errorf("%v, until %v after %v", a, last, until)
		}
		_, err := h.stream.Recv()
		wantCode(t, err, codes.FailedPrecondition, "lost")
		if !strings.Contains(err.Error(), "server is ending") {
			t.Errorf("the holder is told %v", err)
		}
		if err := <-ended; err != nil || time.Now().Before(until) {
			t.Errorf("%v, %v before the end", err, time.Until(until))
		}
	})
}

// A lease that ends tells the holder, and a store that does not answer keeps no stream.
func TestHoldStreamLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startGRPC(t, "url: troubled://")
		q := job(30_000, 1000)
		q.Acquire.Key = "stale"
		h := w.dial("").hold(t, t.Context(), q)
		_, until := h.answered()
		ends := time.Now().Add(shortLease)
		for {
			time.Sleep(300 * time.Millisecond)
			if time.Now().After(until) {
				break
			}
			h.send(&coordpb.HoldRequest{})
			if _, until = h.answered(); until.After(ends) {
				t.Fatalf("until %v, of a lease until %v", until, ends)
			}
		}
		h.fails(codes.FailedPrecondition, "lost")
	})
}

// What a held stream must not ask for.
func TestHoldStreamRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startGRPC(t, "")
		c, ctx := w.dial(""), t.Context()
		again, newer := job(0, 0), job(0, 0)
		again.Acquire.RequestId = "r1-0123456789abc"
		newer.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 1))
		for name, q := range map[string]*coordpb.HoldRequest{
			"nothing": {}, "a request_id": again, "a newer field": newer, "a short window": job(0, 249), "a long window": job(0, maxTTL.Milliseconds()+1), "a window beyond a duration": job(0, 18_446_744_074_000),
			"no key": {Acquire: &coordpb.AcquireRequest{}},
		} {
			t.Log(name)
			c.hold(t, ctx, q).fails(codes.InvalidArgument, "invalid")
		}
		closed := done(c.Hold(ctx))(t)
		_ = closed.CloseSend()
		_, err := closed.Recv()
		wantCode(t, err, codes.InvalidArgument, "invalid")
		h := c.hold(t, ctx, job(0, 0))
		h.answered()
		c.hold(t, ctx, job(0, 0)).fails(codes.Aborted, "locked")
		h.send(job(0, 0))
		h.fails(codes.InvalidArgument, "invalid")
	})
}

// A stream whose holder closes it ends well when its key is free, and at no other time.
func TestHoldStreamUnconfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startGRPC(t, "url: troubled://")
		q := job(30_000, 1000)
		q.Acquire.Key = "stuck"
		h := w.dial("").hold(t, t.Context(), q)
		h.answered()
		if err := h.stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		h.fails(codes.Unavailable, "unavailable")
	})
}

// panicking is a stream whose second message panics.
type panicking struct {
	coordpb.Locks_HoldServer
	ctx   context.Context
	asked bool
}

func (p *panicking) Context() context.Context     { return p.ctx }
func (*panicking) Send(*coordpb.HoldAnswer) error { return nil }
func (p *panicking) Recv() (*coordpb.HoldRequest, error) {
	if p.asked {
		panic("a test")
	}
	p.asked = true
	return job(30_000, 1000), nil
}

// A panic ends one stream alone.
func TestHoldStreamPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "")
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), callerKey{}, k.callers.everybody))
		defer cancel()
		if err := (&locksService{s: k.Server}).Hold(&panicking{ctx: ctx}); !errors.Is(err, errPanic) {
			t.Errorf("%v", err)
		}
	})
}
