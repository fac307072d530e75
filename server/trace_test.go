package server

import (
	"net/http"
	"testing"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/coordgo/coord/server/coordpb"
)

// ended is a span that has ended, with its attributes.
type ended struct {
	sdk.ReadOnlySpan
	has map[attribute.Key]any
}

// record makes spans of the server's requests. The function it gives waits for the next that ends.
func (k *kit) record() (next func() ended) {
	spans := make(chan ended, 10)
	k.tracer = sdk.NewTracerProvider(sdk.WithSpanProcessor(toChannel{tracetest.NewSpanRecorder(), spans})).Tracer("test")
	return func() ended { return <-spans }
}

type toChannel struct {
	sdk.SpanProcessor
	spans chan<- ended
}

func (c toChannel) OnEnd(s sdk.ReadOnlySpan) {
	has := make(map[attribute.Key]any)
	for _, a := range s.Attributes() {
		has[a.Key] = a.Value.AsInterface()
	}
	c.spans <- ended{s, has}
}

const (
	traceOf     = "4bf92f3577b34da6a3ce929d0e0e4736"
	traceparent = "00-" + traceOf + "-00f067aa0ba902b7-01"
)

// want checks the name, the trace and attributes of a span.
func (s ended) want(t *testing.T, name string, has map[attribute.Key]any) {
	t.Helper()
	if s.Name() != name || s.SpanContext().TraceID().String() != traceOf || s.Status().Code != codes.Unset {
		t.Errorf("%s of trace %v, %v", s.Name(), s.SpanContext().TraceID(), s.Status())
	}
	for key, want := range has {
		if s.has[key] != want {
			t.Errorf("%s: %v, want %v", key, s.has[key], want)
		}
	}
}

// A request of a caller has a span in the caller's trace, by HTTP and by gRPC. One of a stranger has none.
func TestTrace(t *testing.T) {
	k := start(t, "serve:\n  envoy: {files: ["+envoyFiles(t, "1")+"]}\n"+
		"  callers: [{name: edge, token: 0123456789abcdef, allow: [{prefix: '', rights: [take, lock]}]}]\n")
	next := k.record()
	in := func(q *http.Request) { q.Header.Set("traceparent", traceparent) }
	k.post("/v1/locks/acquire", `{"key":"a"}`, in).want(t, http.StatusUnauthorized, "unauthenticated")
	known := func(q *http.Request) { q.Header.Set("Authorization", "Bearer 0123456789abcdef") }
	held := k.post("/v1/locks/acquire", `{"key":"a"}`, in, known).ok(t)
	next().want(t, "POST /v1/locks/acquire", map[attribute.Key]any{"coord.caller": "edge", "http.response.status_code": int64(200)})
	k.post("/v1/locks/release", id(held), in, known).ok(t) // or the server waits for it in the end
	next().want(t, "POST /v1/locks/release", nil)

	envoy := ratelimitpb.NewRateLimitServiceClient(k.wire().dial("0123456789abcdef"))
	q := new(ratelimitpb.RateLimitRequest)
	if err := protojson.Unmarshal([]byte(askEnvoy), q); err != nil {
		t.Fatal(err)
	}
	for over, code := range []string{"OK", "OVER_LIMIT"} {
		if _, err := envoy.ShouldRateLimit(metadata.AppendToOutgoingContext(t.Context(), "traceparent", traceparent), q); err != nil {
			t.Fatal(err)
		}
		next().want(t, "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", map[attribute.Key]any{
			"coord.caller": "edge", "rpc.grpc.status_code": int64(0), "ratelimit.domain": "edge",
			"ratelimit.code": code, "ratelimit.descriptors": int64(1), "ratelimit.over_limit": int64(over),
		})
	}
}

// A fault is one of the span too. A mistake of the caller is not.
func TestTraceOfFaults(t *testing.T) {
	k := start(t, "")
	next, c := k.record(), k.wire().dial("")
	if _, err := c.Take(t.Context(), &coordpb.TakeRequest{}); err == nil {
		t.Error("a take of nothing")
	}
	if s := next(); s.Status().Code != codes.Unset {
		t.Errorf("of a mistake: %v", s.Status())
	}
	_ = k.client.Close()
	k.post("/v1/locks/acquire", `{"key":"a"}`)
	if s := next(); s.Status().Code != codes.Error || s.has["http.response.status_code"] != int64(503) {
		t.Errorf("of a store that is closed: %v %v", s.Status(), s.has)
	}
	if _, err := c.Acquire(t.Context(), &coordpb.AcquireRequest{Key: "a"}); err == nil {
		t.Error("a lock of a store that is closed")
	}
	if s := next(); s.Status().Code != codes.Error {
		t.Errorf("by gRPC: %v", s.Status())
	}
}
