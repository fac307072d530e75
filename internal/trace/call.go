package trace

import (
	"context"
	"errors"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/errs"
	"github.com/coordgo/coord/observe"
)

// Call is a call of the application.
type Call struct {
	c     *Client
	call  observe.Call
	ctx   context.Context // for the rest of the call, as the observers made it
	began time.Duration
}

// Call tells that a call begins, and gives the context for the rest of it.
func (c *Client) Call(ctx context.Context, call observe.Call) (context.Context, *Call) {
	if !c.Locks() && !(c.Limits() && call.N > 0) {
		return ctx, nil
	}
	w := &Call{}
	w.begin(c, ctx, call)
	return w.ctx, w
}

func (w *Call) begin(c *Client, ctx context.Context, call observe.Call) {
	call.Backend = c.Backend
	w.c, w.call, w.began = c, call, c.Clock.Mono()
	w.ctx = c.tell.CallBegan(ctx, call)
}

// Ended tells that the call has ended, or panicked.
func (w *Call) Ended(err error, panicked bool) {
	if w == nil {
		return
	}
	e := observe.CallEnded{Call: w.call, Took: w.took(), Outcome: outcomeOf(err), Err: err, Panicked: panicked}
	if panicked {
		e.Outcome = observe.OutcomeError
	}
	w.c.tell.CallEnded(w.ctx, e)
}

func (w *Call) took() time.Duration { return w.c.Clock.Mono() - w.began }

// outcomes are tried in this order: an error can be several.
var outcomes = []struct {
	err     error
	outcome observe.Outcome
}{
	{nil, observe.OutcomeOK},
	{driver.ErrClosed, observe.OutcomeClosed},
	{errs.ErrLost, observe.OutcomeLost},
	{driver.ErrUnavailable, observe.OutcomeUnavailable},
	{context.DeadlineExceeded, observe.OutcomeTimedOut},
	{context.Canceled, observe.OutcomeCancelled},
	{errs.ErrUnknownOutcome, observe.OutcomeUnavailable},
	{driver.ErrLocked, observe.OutcomeRefused},
	{errs.ErrLimited, observe.OutcomeRefused},
	{driver.ErrInvalid, observe.OutcomeInvalid},
	{errs.ErrExceedsBurst, observe.OutcomeInvalid},
	{driver.ErrUnsupported, observe.OutcomeInvalid},
}

func outcomeOf(err error) observe.Outcome {
	for _, known := range outcomes {
		if errors.Is(err, known.err) {
			return known.outcome
		}
	}
	return observe.OutcomeError
}
