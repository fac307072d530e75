package otelcoord

import (
	"maps"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// labels are the attributes of a figure.
type labels struct {
	backend        string
	key            label // none without WithKey
	more           [2]label
	decision       bool // the following two are given
	cached, leased bool
}

// label is an attribute; zero is none.
type label struct{ name, value string }

// set has the attributes.
func (l labels) set() attribute.Set {
	list := make([]attribute.KeyValue, 0, 6)
	for _, of := range [...]label{{attrBackend, l.backend}, l.key, l.more[0], l.more[1]} {
		if of != (label{}) {
			list = append(list, attribute.String(of.name, of.value))
		}
	}
	if l.decision {
		list = append(list, attribute.Bool(attrCached, l.cached), attribute.Bool(attrLeased, l.leased))
	}
	return attribute.NewSet(list...)
}

// sets keeps the sets of labels, for to make one costs more than to count. It is safe for concurrent use.
type sets struct {
	known atomic.Pointer[map[labels]metric.MeasurementOption]
	mu    sync.Mutex // of those who add
}

// maxSets bounds what is kept: a class of keys may have more values than it should.
const maxSets = 1000

func (s *sets) of(l labels) metric.MeasurementOption {
	known := s.known.Load()
	if known == nil {
		return s.add(l)
	}
	with, ok := (*known)[l]
	switch {
	case ok:
		return with
	case len(*known) < maxSets:
		return s.add(l)
	}
	return metric.WithAttributeSet(l.set())
}

func (s *sets) add(l labels) metric.MeasurementOption {
	with := metric.WithAttributeSet(l.set())
	s.mu.Lock()
	defer s.mu.Unlock()
	known := make(map[labels]metric.MeasurementOption)
	if old := s.known.Load(); old != nil {
		maps.Copy(known, *old)
	}
	if len(known) < maxSets {
		known[l] = with
	}
	s.known.Store(&known)
	return with
}
