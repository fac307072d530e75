package batch

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/call"
)

// Sender sends requests to one server. Its methods are called by several goroutines at once, but Join, which is not.
type Sender[R any] interface {
	// Send sends one request, in the goroutine of its caller, and returns when it is answered or ctx ends.
	Send(ctx context.Context, r R) error
	// SendAll sends two or more requests in one round trip, and calls answer once for each, when r has its result: it does
	// not touch r any more after that. ctx ends when all callers have left, and has their latest deadline.
	SendAll(ctx context.Context, rs []R, answer func(i int, err error))
	// Join reports whether r may share a batch with those before it, and whether no other request may join them after it.
	// It must not block. A request that may not is sent by itself.
	Join(before []R, r R) (fits, full bool)
}

// Options say when a [Batcher] sends.
type Options struct {
	// Out is how many requests are under way before others join a batch, and Shared how many batches among them.
	Out, Shared int
	// Wait is how long a batch waits at most for a request to return: those under way may hang.
	Wait time.Duration
	// Calls are those of the adapter. When it closes, no request waits any longer.
	Calls *call.Calls
}

// Batcher sends requests, several in one if they come faster than they are answered. It is safe for concurrent use.
type Batcher[R any] struct {
	sender Sender[R]
	Options

	mu     sync.Mutex
	out    int       // requests and batches under way
	shared int       // batches among them
	next   *batch[R] // waits; nil: there is none
	timer  *time.Timer
	unused sync.Pool // of *request
}

// batch is requests that share a round trip. Batcher.mu guards it.
type batch[R any] struct {
	requests []*request
	values   []R
	callers  int // those that have not left
	cancel   context.CancelFunc
}

// request is the wait for one of batch.values.
type request struct {
	ctx    context.Context
	result chan error // has room for the one that it gets
}

// New makes a Batcher.
func New[R any](s Sender[R], o Options) *Batcher[R] { return &Batcher[R]{sender: s, Options: o} }

// Do sends r and returns its error, or at the end of ctx an error that matches [driver.ErrNotSent] if r was not sent, and else
// plain ctx.Err. When the adapter closes, that is [driver.ErrClosed], or the error of its calls. The sender may then still work on r.
func (b *Batcher[R]) Do(ctx context.Context, r R) error {
	b.mu.Lock()
	if b.next == nil && b.free() {
		b.out++
		b.mu.Unlock()
		defer b.alone()
		return b.sender.Send(ctx, r)
	}
	bt, q := b.join(ctx, r)
	b.mu.Unlock()
	if bt == nil {
		return b.sender.Send(ctx, r)
	}
	select {
	case err := <-q.result:
		q.ctx = nil
		b.unused.Put(q)
		return err
	case <-ctx.Done():
	case <-b.Calls.Life().Done():
	}
	return b.leave(bt, q)
}

// Waiting is how many requests have joined a batch that is not sent yet.
func (b *Batcher[R]) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		return 0
	}
	return len(b.next.requests)
}

// Idle reports whether no request is under way, and none waits.
func (b *Batcher[R]) Idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out == 0 && b.next == nil
}

// free reports whether one more may be under way. mu is held.
func (b *Batcher[R]) free() bool {
	return b.out < b.Out && b.shared < b.Shared && !b.Calls.Closed()
}

// join adds r to the next batch, unless it does not fit. mu is held.
func (b *Batcher[R]) join(ctx context.Context, r R) (*batch[R], *request) {
	bt := b.next
	if bt == nil {
		bt = &batch[R]{}
	}
	fits, full := b.sender.Join(bt.values, r)
	if !fits {
		return nil, nil
	}
	q, ok := b.unused.Get().(*request)
	if !ok {
		q = &request{result: make(chan error, 1)}
	}
	q.ctx = ctx
	bt.requests, bt.values = append(bt.requests, q), append(bt.values, r)
	if b.next == nil {
		b.next = bt
		b.setTimer()
	}
	if full {
		b.start(b.take())
	}
	return bt, q
}

// leave ends the wait for a request whose caller has gone.
func (b *Batcher[R]) leave(bt *batch[R], q *request) error {
	closed, err := b.Calls.Closed(), q.ctx.Err()
	if closed {
		err = context.Cause(b.Calls.Life())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if bt != b.next {
		if bt.callers--; bt.callers == 0 {
			bt.cancel()
		}
		return err
	}
	i := slices.Index(bt.requests, q)
	bt.requests, bt.values = slices.Delete(bt.requests, i, i+1), slices.Delete(bt.values, i, i+1)
	if len(bt.requests) == 0 {
		b.next = nil
	}
	if closed {
		return driver.ErrClosed
	}
	return driver.NotSent(err)
}

// alone takes in that a request has come back that was sent by itself.
func (b *Batcher[R]) alone() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out--
	if b.next != nil && b.free() {
		b.start(b.take())
	}
}

// take takes the next batch, to be sent. mu is held.
func (b *Batcher[R]) take() (bt *batch[R], ctx context.Context) {
	bt, b.next = b.next, nil
	b.timer.Stop()
	b.out++
	b.shared++
	bt.callers = len(bt.requests)
	ctx, bt.cancel = together(bt.requests)
	return bt, ctx
}

// together is the context of a batch.
func together(requests []*request) (context.Context, context.CancelFunc) {
	var last time.Time
	for _, q := range requests {
		deadline, ok := q.ctx.Deadline()
		if !ok {
			return context.WithCancel(context.Background())
		}
		if deadline.After(last) {
			last = deadline
		}
	}
	return context.WithDeadline(context.Background(), last)
}

// start sends a batch in a goroutine, and then those that have gathered meanwhile. mu is held.
func (b *Batcher[R]) start(bt *batch[R], ctx context.Context) {
	if !b.Calls.Go(func() {
		for bt != nil {
			b.send(ctx, bt)
			// Callers that have their results may have further requests.
			runtime.Gosched()
			bt, ctx = b.sent()
		}
	}) {
		bt.cancel() // the waits end with the adapter
	}
}

// sent takes in that a batch has come back, and takes the next one, if one waits and may go.
func (b *Batcher[R]) sent() (*batch[R], context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out--
	b.shared--
	if b.next == nil || !b.free() {
		return nil, nil
	}
	return b.take()
}

// send sends a batch. A request that has its result is used again by others: it is not touched any more.
func (b *Batcher[R]) send(ctx context.Context, bt *batch[R]) {
	defer bt.cancel()
	if len(bt.requests) == 1 {
		bt.requests[0].result <- b.sender.Send(ctx, bt.values[0])
		return
	}
	b.sender.SendAll(ctx, bt.values, func(i int, err error) { bt.requests[i].result <- err })
}

// setTimer bounds the wait of the next batch. mu is held.
func (b *Batcher[R]) setTimer() {
	if b.timer == nil {
		b.timer = time.AfterFunc(b.Wait, b.late)
		return
	}
	b.timer.Reset(b.Wait)
}

// late sends a batch that has waited for too long.
func (b *Batcher[R]) late() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil && !b.Calls.Closed() {
		b.start(b.take())
	}
}
