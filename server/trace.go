package server

import (
	"cmp"
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"
)

// traced begins the span of a request whose caller is known: a stranger begins none. It belongs to the trace that the
// caller names in traceparent. [Server.told] ends it.
func (s *Server) traced(ctx context.Context, q *request) context.Context {
	if s.tracer == nil {
		return ctx
	}
	var from propagation.TextMapCarrier = propagation.HeaderCarrier(q.header)
	if q.header == nil {
		md, _ := metadata.FromIncomingContext(ctx)
		from = carrier(md)
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

// carrier are the headers of a call by gRPC.
type carrier metadata.MD

func (c carrier) Get(key string) string {
	if values := metadata.MD(c).Get(key); len(values) > 0 {
		return values[0]
	}
	return ""
}

func (c carrier) Set(key, value string) { metadata.MD(c).Set(key, value) }

func (c carrier) Keys() []string { // propagation.TraceContext asks for none
	keys := make([]string, 0, len(c))
	for key := range c {
		keys = append(keys, key)
	}
	return keys
}
