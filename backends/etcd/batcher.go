package etcd

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/batch"
)

const (
	// maxOut is how many requests are under way before steps wait for each other: more would only wait at the server, for which
	// a request is more work than a step.
	maxOut = 4
	// maxBytes is how much steps put together before no other joins them. A server takes 1.5 MiB as a rule, and a client sends 2.
	maxBytes = 448 << 10
	// maxWait is how long a step waits at most for a request to come back: one may hang on a member that does not answer.
	maxWait = 10 * time.Millisecond
)

// errAlone: the store has refused the request that steps shared, and so done none of them. Each is to
// be made alone, for all but one may be good.
var errAlone = errors.New("etcd: one of several steps was refused")

// batchedStep is a step and its answer.
type batchedStep struct {
	step
	answer
}

// stepSender sends the steps of a backend.
type stepSender struct{ *backend }

func (b *backend) newBatcher(wait time.Duration) *batch.Batcher[*batchedStep] {
	return batch.New[*batchedStep](stepSender{b}, batch.Options{
		Out: maxOut, Shared: 1, Wait: wait, Closing: b.life.Done(), ErrClosing: errClosing, Start: b.start,
	})
}

// perform makes a step, by a request of its own or together with others.
func (b *backend) perform(ctx context.Context, s step) (answer, error) {
	r, ok := b.unused.Get().(*batchedStep)
	if !ok {
		r = new(batchedStep)
	}
	r.step = s
	err := b.batcher.Do(ctx, r)
	switch {
	case err == nil: // nobody else uses it any more
		a := r.answer
		*r = batchedStep{}
		b.unused.Put(r)
		return a, nil
	case errors.Is(err, errAlone):
		return b.send(ctx, s)
	}
	return answer{}, err
}

// Send implements batch.Sender.
func (b stepSender) Send(ctx context.Context, r *batchedStep) (err error) {
	r.answer, err = b.send(ctx, r.step)
	return err
}

// Join implements batch.Sender. Steps of one place do not share a request: they would not see each other.
func (b stepSender) Join(before []*batchedStep, r *batchedStep) (fits, full bool) {
	bytes := r.bytes()
	for _, other := range before {
		bytes += other.bytes()
	}
	same := func(other *batchedStep) bool { return other.place == r.place }
	fits = !slices.ContainsFunc(before, same) && (len(before) == 0 || bytes <= 2*maxBytes)
	return fits, bytes >= maxBytes || len(before)+1 >= b.ops.most()
}

// SendAll implements batch.Sender.
func (b stepSender) SendAll(ctx context.Context, batched []*batchedStep, answer func(int, error)) {
	steps := make([]step, len(batched))
	for i, r := range batched {
		steps[i] = r.step
	}
	ctx, cancel := context.WithTimeout(ctx, b.making)
	defer cancel()
	answers, err := b.sendAll(ctx, steps)
	var refusal rpctypes.EtcdError
	if errors.As(err, &refusal) && driver.Definite(err) {
		b.ops.tooMany(err, len(steps))
		err = errAlone
	}
	for i, r := range batched {
		if err == nil {
			r.answer = answers[i]
		}
		answer(i, err)
	}
}

// start runs fn in a goroutine that Close waits for; false after Close.
func (b *backend) start(fn func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.startHeld(fn)
}

// startHeld is start while backend.mu is held.
func (b *backend) startHeld(fn func()) bool {
	if b.life.Err() != nil {
		return false
	}
	b.bg.Go(fn)
	return true
}
