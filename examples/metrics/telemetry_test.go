package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/otelcoord"
)

// What otelcoord reports, seen through the SDK. It is tested here, because this module has it.
type telemetry struct {
	t      *testing.T
	reader *metric.ManualReader
	spans  *tracetest.SpanRecorder
	tracer *trace.TracerProvider
	client *coord.Client
}

func newTelemetry(t *testing.T, opts ...otelcoord.Option) *telemetry {
	t.Helper()
	x := &telemetry{t: t, reader: metric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	x.tracer = trace.NewTracerProvider(trace.WithSpanProcessor(x.spans))
	o, err := otelcoord.New(append([]otelcoord.Option{
		otelcoord.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(x.reader))),
		otelcoord.WithTracerProvider(x.tracer),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	if x.client, err = coord.New(memory.New(), coord.WithObserver(o)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.client.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

// sums are the values of counters and the counts of histograms, by name and attributes.
func (x *telemetry) sums() map[string]int64 {
	x.t.Helper()
	var rm metricdata.ResourceMetrics
	if err := x.reader.Collect(x.t.Context(), &rm); err != nil {
		x.t.Fatal(err)
	}
	sums := make(map[string]int64)
	name := func(m metricdata.Metrics, set attribute.Set) string {
		return m.Name + "{" + set.Encoded(attribute.DefaultEncoder()) + "}"
	}
	for _, scope := range rm.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					sums[name(m, p.Attributes)] = p.Value
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					sums[name(m, p.Attributes)] = int64(p.Count)
				}
			default:
				x.t.Errorf("%s is a %T", m.Name, m.Data)
			}
		}
	}
	return sums
}

func (x *telemetry) want(want map[string]int64) {
	x.t.Helper()
	got := x.sums()
	for name, n := range want {
		if v, ok := got[name]; !ok || v != n {
			x.t.Errorf("%s is %d, want %d", name, v, n)
		}
	}
	if x.t.Failed() {
		for _, name := range slices.Sorted(maps.Keys(got)) {
			x.t.Logf("%s %d", name, got[name])
		}
	}
}

func TestMetricsOfLocksAndLimits(t *testing.T) {
	x := newTelemetry(t)
	ctx := coord.WithOwner(t.Context())
	c := x.client
	l, err := c.Lock(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.Lock(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.TryLock(t.Context(), "k"); !errors.Is(err, coord.ErrLocked) {
		t.Error(err)
	}
	if _, err := c.Lock(t.Context(), "k", coord.WaitAtMost(10*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	x.want(map[string]int64{"coord.lock.held{coord.backend=memory}": 1, "coord.lock.waiting{coord.backend=memory}": 0})
	for _, h := range []*coord.Lock{again, l} {
		if err := h.Unlock(ctx); err != nil {
			t.Error(err)
		}
	}
	lost, err := c.Lock(ctx, "k", coord.MaxHold(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	<-lost.Done()
	_ = lost.Unlock(ctx)
	two := coord.PerHour(2)
	for range 3 {
		if _, err := c.Allow(ctx, "k", two); err != nil {
			t.Error(err)
		}
	}
	if err := c.WaitN(ctx, "w", coord.PerHour(5), 5); err != nil {
		t.Error(err)
	}
	x.want(map[string]int64{
		"coord.lock.attempts{coord.backend=memory,coord.outcome=ok}":                                                              2,
		"coord.lock.attempts{coord.backend=memory,coord.outcome=refused}":                                                         1,
		"coord.lock.attempts{coord.backend=memory,coord.outcome=timed_out}":                                                       1,
		"coord.lock.wait.duration{coord.backend=memory,coord.outcome=ok,coord.way=free}":                                          2,
		"coord.lock.wait.duration{coord.backend=memory,coord.outcome=timed_out}":                                                  1,
		"coord.lock.reentries{coord.backend=memory}":                                                                              1,
		"coord.lock.losses{coord.backend=memory,coord.reason=max_hold}":                                                           1,
		"coord.lock.hold.duration{coord.backend=memory,coord.end=released}":                                                       1,
		"coord.lock.hold.duration{coord.backend=memory,coord.end=max_hold}":                                                       1,
		"coord.lock.held{coord.backend=memory}":                                                                                   0,
		"coord.limit.decisions{coord.backend=memory,coord.cached=false,coord.decision=allowed,coord.leased=false,coord.op=allow}": 2,
		"coord.limit.decisions{coord.backend=memory,coord.cached=false,coord.decision=denied,coord.leased=false,coord.op=allow}":  1,
		"coord.limit.permits{coord.backend=memory,coord.decision=allowed,coord.op=wait}":                                          5,
		"coord.limit.wait.duration{coord.backend=memory,coord.outcome=ok}":                                                        1,
		"coord.store.call.duration{coord.backend=memory,coord.op=take,coord.outcome=ok}":                                          4,
	})
}

// span finds the only ended span of a name.
func (x *telemetry) span(name string) trace.ReadOnlySpan {
	x.t.Helper()
	var found []trace.ReadOnlySpan
	for _, s := range x.spans.Ended() {
		if s.Name() == name {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		x.t.Fatalf("%d spans %s", len(found), name)
	}
	return found[0]
}

// A goroutine that waits is linked to the Do for which it waits.
func TestWaiterIsLinkedToHolder(t *testing.T) {
	x := newTelemetry(t, otelcoord.WithSpanKey(func(k string) string { return "<" + k + ">" }))
	held, waited := make(chan bool), make(chan error)
	release := make(chan bool)
	go func() {
		waited <- coord.Do(t.Context(), x.client, "k", func(context.Context) error {
			close(held)
			<-release
			return nil
		})
	}()
	<-held
	ctx, app := x.tracer.Tracer("app").Start(t.Context(), "app")
	_, err := x.client.Lock(ctx, "k", coord.WaitAtMost(10*time.Millisecond))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	app.End()
	close(release)
	if err := <-waited; err != nil {
		t.Error(err)
	}
	do := x.span("coord.do")
	var waiter trace.ReadOnlySpan
	for _, s := range x.spans.Ended() {
		if s.Name() == "coord.lock" && s.Parent().SpanID() == app.SpanContext().SpanID() {
			waiter = s
		}
	}
	if waiter == nil {
		t.Fatal("the waiter's span is not in the application's")
	}
	if links := waiter.Links(); len(links) != 1 || links[0].SpanContext.SpanID() != do.SpanContext().SpanID() {
		t.Errorf("links %v, want one to the holder's Do", links)
	}
	if waiter.Status().Code != codes.Error || waiter.Status().Description != "timed_out" {
		t.Errorf("status %+v", waiter.Status())
	}
	if !slices.Contains(waiter.Attributes(), attribute.String("coord.key", "<k>")) {
		t.Errorf("attributes %v", waiter.Attributes())
	}
	if do.Status().Code == codes.Error || !slices.Contains(do.Attributes(), attribute.String("coord.outcome", "ok")) {
		t.Errorf("the holder's: %+v, %v", do.Status(), do.Attributes())
	}
}

// A loss is an event of the Do, whose span has an error, and no span has the key.
func TestLossIsAnEventOfTheSpan(t *testing.T) {
	x := newTelemetry(t)
	err := coord.Do(t.Context(), x.client, "secret", func(ctx context.Context) error {
		<-ctx.Done()
		return x.client.Wait(context.WithoutCancel(ctx), "secret", coord.PerSecond(1))
	}, coord.MaxHold(10*time.Millisecond))
	if !errors.Is(err, coord.ErrMaxHold) {
		t.Error(err)
	}
	do := x.span("coord.do")
	if events := do.Events(); len(events) != 1 || events[0].Name != "coord.lock.lost" ||
		!slices.Contains(events[0].Attributes, attribute.String("coord.reason", "max_hold")) {
		t.Errorf("events %v", events)
	}
	if do.Status().Code != codes.Error {
		t.Errorf("status %+v", do.Status())
	}
	if wait := x.span("coord.wait"); wait.Parent().SpanID() != do.SpanContext().SpanID() {
		t.Error("what is done under the lock is not in the span of Do")
	}
	for _, s := range x.spans.Ended() {
		for _, a := range s.Attributes() {
			if a.Value.String() == "secret" {
				t.Errorf("%s shows the key in %s", s.Name(), a.Key)
			}
		}
	}
}

// otelcoord.Metrics lists what is recorded, no more and no less.
func TestMetricsAreListed(t *testing.T) {
	x := newTelemetry(t)
	var rm metricdata.ResourceMetrics
	err := coord.Do(t.Context(), x.client, "k", func(ctx context.Context) error {
		_, err := x.client.Allow(ctx, "k", coord.PerSecond(1))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.reader.Collect(t.Context(), &rm); err != nil {
		t.Fatal(err)
	}
	listed := make(map[string]otelcoord.Metric)
	for _, m := range otelcoord.Metrics() {
		listed[m.Name] = m
	}
	seen := 0
	for _, scope := range rm.ScopeMetrics {
		for _, m := range scope.Metrics {
			seen++
			if l, ok := listed[m.Name]; !ok || l.Unit != m.Unit || l.Description != m.Description {
				t.Errorf("%s (%s) is listed as %+v", m.Name, m.Unit, l)
			}
		}
	}
	if seen < 6 {
		t.Errorf("%d metrics: the test tests nothing", seen)
	}
}
