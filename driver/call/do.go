package call

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/driver"
)

// look is how often a call without an answer asks whether there is a server at all.
const look = 100 * time.Millisecond

// Call is one call of [DoSend].
type Call struct{ state atomic.Uint32 }

// What has become of a call. What it sends and what its caller does can coincide: whichever comes second sees the other.
const (
	hasSent uint32 = 1 << iota
	hasLeft
	isOver
)

// Send says that the call is about to send what may change the store. It reports false if its caller has left: then nothing
// may be sent, because the caller was told so.
func (c *Call) Send() bool { return c.state.Or(hasSent)&hasLeft == 0 }

// Left reports whether the caller has left.
func (c *Call) Left() bool { return c.state.Load()&hasLeft != 0 }

// pending is a call that its caller waits for. One that has come back is used again.
type pending[T any] struct {
	Call
	do    func(*Call) (T, error)
	late  func(T, error)
	done  chan result[T] // has room for the one that it gets
	start func()         // runs it
}

type result[T any] struct {
	value T
	err   error
}

// Do calls do in a goroutine, and returns what it gives, if that comes before the end of ctx and [Calls.Close].
//
// Otherwise the caller leaves, after Options.Grace: left is set, and late, unless it is nil, gets what do gives. The error is
// plain ctx.Err(), or Options.ErrClosing: what do does may have been applied. It matches driver.ErrNotSent too if do had not
// begun; it does not begin then, and late gets that error. A call that is refused begins nothing: left is not set.
func Do[T any](ctx context.Context, c *Calls, do func() (T, error), late func(T, error)) (v T, left bool, err error) {
	return DoSend(ctx, c, func(in *Call) (v T, err error) {
		if !in.Send() {
			return v, driver.NotSent(errLeft)
		}
		return do()
	}, late)
}

var errLeft = errors.New("the caller has left before the call began")

// DoSend is [Do] for a do that prepares something first: it has to call [Call.Send] before all that may change the store. A
// caller that leaves before that is told driver.ErrNotSent, and nobody cleans up after it. do keeps no [Call] after its
// return: another call has it then.
func DoSend[T any](ctx context.Context, c *Calls, do func(*Call) (T, error), late func(T, error)) (v T, left bool, err error) {
	if err := c.Ready(ctx); err != nil {
		return v, false, err
	}
	if !c.begin() {
		return v, false, driver.ErrClosed
	}
	p, ok := c.unused.Get().(*pending[T])
	if !ok {
		p = &pending[T]{done: make(chan result[T], 1)}
		p.start = func() {
			defer c.work.Done()
			p.run()
		}
	}
	p.do, p.late = do, late
	go p.start()
	r, why := p.wait(ctx, c)
	if why != nil {
		before := p.state.Or(hasLeft)
		switch {
		case before&isOver != 0: // it came back just now
			r = <-p.done
		case before&hasSent == 0:
			return v, true, driver.NotSent(why)
		default:
			return v, true, why
		}
	}
	p.do, p.late = nil, nil
	p.state.Store(0)
	c.unused.Put(p)
	return r.value, false, r.err
}

// run runs it. Its caller may use it again as soon as that has the result.
func (p *pending[T]) run() {
	v, err := p.do(&p.Call)
	switch {
	case p.state.Or(isOver)&hasLeft == 0:
		p.done <- result[T]{v, err}
	case p.late != nil:
		p.late(v, err)
	}
}

// wait returns the result, or else why nobody waits for it any more.
func (p *pending[T]) wait(ctx context.Context, c *Calls) (r result[T], why error) {
	var looks, last <-chan time.Time
	if c.options.Down != nil {
		t := time.NewTicker(look)
		defer t.Stop()
		looks = t.C
	}
	ended, closed := ctx.Done(), c.life.Done()
	for {
		select {
		case r := <-p.done:
			return r, nil
		case <-ended:
			why = ctx.Err()
		case <-closed:
			why = c.options.ErrClosing
		case <-looks:
			if err := c.options.Down(); err != nil {
				return r, err
			}
			continue
		case <-last:
			return r, why
		}
		if c.options.Grace == 0 {
			return r, why
		}
		t := time.NewTimer(c.options.Grace)
		defer t.Stop()
		ended, closed, looks, last = nil, nil, nil, t.C
	}
}
