package otelcoord

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/coordgo/coord/observe"
)

// tracer makes the spans, and knows those of holders.
type tracer struct {
	tracer trace.Tracer
	show   func(string) string

	mu      sync.Mutex
	holders map[string]trace.SpanContext // by the hold's ID
}

// doing is the Do around a Lock, as its context carries it.
type doing struct {
	key  string
	span trace.SpanContext
}

// doingKey and spanKey are where a context has what this tracer put there: a client may have several, and
// the application has spans of its own.
type (
	doingKey struct{ *tracer }
	spanKey  struct{ *tracer }
)

// span is that of the call, never one of somebody else's.
func (t *tracer) span(ctx context.Context) trace.Span {
	if span, ok := ctx.Value(spanKey{t}).(trace.Span); ok {
		return span
	}
	return trace.SpanFromContext(context.Background()) // it does nothing
}

// around is the span around a lock: that of Do, or the application's, which gets events and nothing else.
func (t *tracer) around(ctx context.Context) trace.Span {
	if span, ok := ctx.Value(spanKey{t}).(trace.Span); ok {
		return span
	}
	return trace.SpanFromContext(ctx)
}

// shown is what may be shown of a key; "" if show panics, for a call without a span of its own would end another's.
func (t *tracer) shown(key string) (text string) {
	defer func() {
		if recover() != nil {
			text = ""
		}
	}()
	return t.show(key)
}

func (t *tracer) callBegan(ctx context.Context, c observe.Call) context.Context {
	attrs := []attribute.KeyValue{attribute.String(attrBackend, c.Backend)}
	if t.show != nil {
		attrs = append(attrs, attribute.String(attrKey, t.shown(c.Key)))
	}
	if c.Op == "wait" {
		attrs = append(attrs, attribute.String("coord.limit", c.Limit.String()), attribute.Int("coord.permits", c.N))
	}
	ctx, span := t.tracer.Start(ctx, "coord."+c.Op, trace.WithAttributes(attrs...))
	ctx = context.WithValue(ctx, spanKey{t}, span)
	if c.Op == "do" || c.Op == "trydo" {
		ctx = context.WithValue(ctx, doingKey{t}, doing{c.Key, span.SpanContext()})
	}
	return ctx
}

func (t *tracer) callEnded(ctx context.Context, c observe.CallEnded) {
	span := t.span(ctx)
	span.SetAttributes(attribute.String(attrOutcome, string(c.Outcome)))
	switch c.Outcome {
	case observe.OutcomeOK, observe.OutcomeRefused, observe.OutcomeCancelled:
	default:
		span.SetStatus(codes.Error, string(c.Outcome)) // not the error's text, which has the key
	}
	span.End()
}

func (t *tracer) waitBegan(ctx context.Context, e observe.WaitBegan) {
	t.mu.Lock()
	holder, known := t.holders[e.HeldBy]
	t.mu.Unlock()
	if known {
		t.span(ctx).AddLink(trace.Link{
			SpanContext: holder,
			Attributes:  []attribute.KeyValue{attribute.String("coord.link", "holder")},
		})
	}
}

func (t *tracer) acquired(ctx context.Context, e observe.Acquired) {
	span := t.span(ctx)
	span.SetAttributes(attribute.Int64("coord.token", int64(e.Token)), attribute.String(attrWay, string(e.Way)))
	holder := span.SpanContext()
	if d, ok := ctx.Value(doingKey{t}).(doing); ok && d.key == e.Key {
		holder = d.span
	}
	if holder.IsValid() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.holders[e.ID] = holder
	}
}

func (t *tracer) forget(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.holders, id)
}

func (t *tracer) released(e observe.Released) { t.forget(e.ID) }

func (t *tracer) lost(ctx context.Context, e observe.Lost) {
	t.forget(e.ID)
	t.around(ctx).AddEvent("coord.lock.lost", trace.WithAttributes(
		attribute.String(attrBackend, e.Backend),
		attribute.String(attrReason, string(e.Reason)),
		attribute.Int64("coord.token", int64(e.Token)),
		attribute.Float64("coord.held", e.Held.Seconds()),
	))
}

func (t *tracer) renewFailed(ctx context.Context, e observe.RenewFailed) {
	t.around(ctx).AddEvent("coord.lock.renewal_failed", trace.WithAttributes(
		attribute.String(attrBackend, e.Backend),
		attribute.Int64("coord.token", int64(e.Token)),
		attribute.Float64("coord.left", e.Left.Seconds()),
	))
}
