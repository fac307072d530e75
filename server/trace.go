package server

import (
	"cmp"
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// traced begins the span of a request whose caller is known: a stranger begins none. It belongs to the trace that the
// caller names in traceparent. [Server.told] ends it.
func (s *Server) traced(ctx context.Context, q *request) context.Context {
	if s.tracer == nil {
		return ctx
	}
	var from propagation.TextMapCarrier = propagation.HeaderCarrier(q.header)
	if q.header == nil {
		from = propagation.MapCarrier{"traceparent": shownAs(ctx, "traceparent"), "tracestate": shownAs(ctx, "tracestate")}
	}
	ctx = propagation.TraceContext{}.Extract(ctx, from)
	ctx, q.span = s.tracer.Start(ctx, cmp.Or(strings.TrimPrefix(q.route, "/"), "HTTP"), trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("coord.caller", q.caller)))
	return ctx
}

// ended ends the span of a request, if it has one.
func (q *request) ended(code attribute.KeyValue, failed bool) {
	if q.span == nil {
		return
	}
	q.span.SetAttributes(code)
	if failed {
		q.span.SetStatus(codes.Error, "")
	}
	q.span.End()
}
