package otelcoord

import (
	"context"
	"maps"
	"testing"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/coordgo/coord/observe"
)

// counts adds up counters by name and decision.
type counts struct {
	noop.MeterProvider
	got map[string]int64
}

func (c *counts) Meter(string, ...metric.MeterOption) metric.Meter { return counters{counts: c} }

type counters struct {
	noop.Meter
	*counts
}

func (c counters) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return &count{counts: c.counts, name: name}, nil
}

type count struct {
	noop.Int64Counter
	counts *counts
	name   string
}

func (c *count) Add(_ context.Context, n int64, opts ...metric.AddOption) {
	set := metric.NewAddConfig(opts).Attributes()
	decision, _ := set.Value(attrDecision)
	c.counts.got[c.name+" "+decision.AsString()] += n
}

// Denials that nobody acts upon are not among those that requests were answered with.
func TestShadowDecisions(t *testing.T) {
	c := &counts{got: make(map[string]int64)}
	o, err := New(WithMeterProvider(c))
	if err != nil {
		t.Fatal(err)
	}
	o.Denied(t.Context(), observe.Decision{})
	o.Denied(t.Context(), observe.Decision{Shadow: true})
	o.Allowed(t.Context(), observe.Decision{Shadow: true, Granted: 3})
	want := map[string]int64{
		"coord.limit.decisions denied": 1, "coord.limit.decisions shadow-denied": 1, "coord.limit.decisions shadow-allowed": 1,
		"coord.limit.permits shadow-allowed": 3,
	}
	if !maps.Equal(c.got, want) {
		t.Errorf("%v: want %v", c.got, want)
	}
}
