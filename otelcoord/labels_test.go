package otelcoord

import (
	"strconv"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/coordgo/coord/observe"
)

func attributesOf(with metric.MeasurementOption) attribute.Set {
	return metric.NewAddConfig([]metric.AddOption{with}).Attributes()
}

// Labels are the attributes of a figure, each of its type, and "" is a value too.
func TestLabels(t *testing.T) {
	var s sets
	l := labels{backend: "redis", more: [2]label{{attrOp, "allow"}}}
	for range 2 {
		got, want := attributesOf(s.of(l)), attribute.NewSet(attribute.String(attrBackend, "redis"), attribute.String(attrOp, "allow"))
		if !got.Equals(&want) {
			t.Errorf("%v, want %v", got.ToSlice(), want.ToSlice())
		}
	}
	l.key, l.decision, l.cached = label{attrKey, ""}, true, true
	got := attributesOf(s.of(l))
	want := attribute.NewSet(attribute.String(attrBackend, "redis"), attribute.String(attrOp, "allow"), attribute.String(attrKey, ""),
		attribute.Bool(attrCached, true), attribute.Bool(attrLeased, false))
	if !got.Equals(&want) {
		t.Errorf("%v, want %v", got.ToSlice(), want.ToSlice())
	}
}

// A class of keys with more values than it should have costs no memory without a bound, and its labels are right.
func TestManyLabels(t *testing.T) {
	var s sets
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range 2 * maxSets {
				class := strconv.Itoa((i + worker) % (2 * maxSets))
				set := attributesOf(s.of(labels{backend: "redis", key: label{attrKey, class}}))
				if got, _ := set.Value(attrKey); got.AsString() != class {
					t.Errorf("%v, want %s", set.ToSlice(), class)
				}
			}
		})
	}
	all.Wait()
	if n := len(*s.known.Load()); n != maxSets {
		t.Errorf("%d are kept, want %d", n, maxSets)
	}
}

// BenchmarkObserver is what an observer without an SDK adds to an Allow.
func BenchmarkObserver(b *testing.B) {
	o, err := New()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		o.Allowed(b.Context(), observe.Decision{Op: "allow", Backend: "redis", Key: "k", Granted: 1})
		o.StoreCalled(b.Context(), observe.StoreCall{Op: "take", Backend: "redis", Key: "k"})
	}
}
