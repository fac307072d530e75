package otelcoord

import (
	"context"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
)

// spans is a provider that counts how often each span ends.
type spans struct {
	noop.TracerProvider
	mu     sync.Mutex
	ends   map[*span]int
	events []string
}

type spanMaker struct {
	noop.Tracer
	spans *spans
}

type span struct {
	noop.Span
	spans *spans
}

func (s *spans) Tracer(string, ...trace.TracerOption) trace.Tracer { return spanMaker{spans: s} }

func (m spanMaker) Start(ctx context.Context, _ string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	s := &span{spans: m.spans}
	m.spans.mu.Lock()
	defer m.spans.mu.Unlock()
	m.spans.ends[s] = 0
	return trace.ContextWithSpan(ctx, s), s
}

func (s *span) End(...trace.SpanEndOption) {
	s.spans.mu.Lock()
	defer s.spans.mu.Unlock()
	s.spans.ends[s]++
}

// Each observer ends the spans that it began, once each, and never one of the application, though its
// function for keys panics.
func TestSpansEndOnce(t *testing.T) {
	var opts []coord.Option
	var all []*spans
	for _, show := range []func(string) string{nil, nil, func(string) string { panic("no") }} {
		s := &spans{ends: make(map[*span]int)}
		o, err := New(WithTracerProvider(s), WithSpanKey(show))
		if err != nil {
			t.Fatal(err)
		}
		all, opts = append(all, s), append(opts, coord.WithObserver(o))
	}
	c, err := coord.New(memory.New(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	app := &spans{ends: make(map[*span]int)}
	ctx, own := app.Tracer("").Start(t.Context(), "app")
	err = coord.Do(ctx, c, "k", func(ctx context.Context) error {
		return c.Wait(ctx, "l", coord.PerHour(1))
	})
	if err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if n := app.ends[own.(*span)]; n != 0 {
		t.Errorf("the application's span was ended %d times", n)
	}
	for i, s := range all {
		if len(s.ends) < 2 {
			t.Errorf("observer %d: %d spans: want those of Do and Wait", i, len(s.ends))
		}
		for _, n := range s.ends {
			if n != 1 {
				t.Errorf("observer %d: a span ended %d times: want 1", i, n)
			}
		}
	}
}

func (s *span) AddEvent(name string, _ ...trace.EventOption) {
	s.spans.mu.Lock()
	defer s.spans.mu.Unlock()
	s.spans.events = append(s.spans.events, name)
}

// The loss of a lock is an event of the application's span where no Do is around the lock.
func TestLossIsTheApplicationsEvent(t *testing.T) {
	own, app := &spans{ends: make(map[*span]int)}, &spans{ends: make(map[*span]int)}
	o, err := New(WithTracerProvider(own))
	if err != nil {
		t.Fatal(err)
	}
	c, err := coord.New(memory.New(), coord.WithObserver(o))
	if err != nil {
		t.Fatal(err)
	}
	ctx, _ := app.Tracer("").Start(t.Context(), "app")
	if _, err := c.Lock(ctx, "k"); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if len(app.events) != 1 || app.events[0] != "coord.lock.lost" || len(own.events) != 0 || len(own.ends) != 1 {
		t.Errorf("events %q of the application, and %q of coord: want the loss of the first", app.events, own.events)
	}
}
