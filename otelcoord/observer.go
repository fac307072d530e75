package otelcoord

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/coordgo/coord/observe"
)

// observer connects the events with the instruments and the spans.
func observer(m *meter, t *tracer) observe.Observer {
	return observe.Observer{
		CallBegan: t.callBegan,
		CallEnded: func(ctx context.Context, c observe.CallEnded) {
			t.callEnded(ctx, c)
			if c.Op == "wait" {
				m.limitWait.Record(ctx, c.Took.Seconds(), m.with(c.Backend, c.Key, outcome(c.Outcome)))
			}
		},
		WaitBegan: func(ctx context.Context, e observe.WaitBegan) {
			m.waiting.Add(ctx, 1, m.with(e.Backend, e.Key))
			t.waitBegan(ctx, e)
		},
		WaitEnded: func(ctx context.Context, e observe.WaitEnded) {
			m.waiting.Add(ctx, -1, m.with(e.Backend, e.Key))
		},
		Acquired: func(ctx context.Context, e observe.Acquired) {
			t.acquired(ctx, e)
			m.attempts.Add(ctx, 1, m.with(e.Backend, e.Key, outcome(observe.OutcomeOK)))
			m.lockWait.Record(ctx, e.Waited.Seconds(), m.with(e.Backend, e.Key, outcome(observe.OutcomeOK), attribute.String(attrWay, string(e.Way))))
			m.held.Add(ctx, 1, m.with(e.Backend, e.Key))
		},
		Reentered: func(ctx context.Context, e observe.Reentered) {
			m.reentries.Add(ctx, 1, m.with(e.Backend, e.Key))
		},
		Refused: func(ctx context.Context, e observe.Refused) {
			with := m.with(e.Backend, e.Key, outcome(e.Outcome))
			m.attempts.Add(ctx, 1, with)
			m.lockWait.Record(ctx, e.Waited.Seconds(), with)
		},
		Renewed: func(ctx context.Context, e observe.Renewed) {
			m.renewals.Add(ctx, 1, m.with(e.Backend, e.Key, outcome(observe.OutcomeOK)))
		},
		RenewFailed: func(ctx context.Context, e observe.RenewFailed) {
			m.renewals.Add(ctx, 1, m.with(e.Backend, e.Key, outcome(observe.OutcomeError)))
			t.renewFailed(ctx, e)
		},
		Lost: func(ctx context.Context, e observe.Lost) {
			t.lost(ctx, e)
			m.losses.Add(ctx, 1, m.with(e.Backend, e.Key, attribute.String(attrReason, string(e.Reason))))
			m.lockHold.Record(ctx, e.Held.Seconds(), m.with(e.Backend, e.Key, attribute.String(attrEnd, string(e.Reason))))
			m.held.Add(ctx, -1, m.with(e.Backend, e.Key))
		},
		Released: func(ctx context.Context, e observe.Released) {
			t.released(e)
			end := "released"
			if e.HandedOver {
				end = "handed_over"
			}
			m.lockHold.Record(ctx, e.Held.Seconds(), m.with(e.Backend, e.Key, attribute.String(attrEnd, end)))
			m.held.Add(ctx, -1, m.with(e.Backend, e.Key))
		},
		Allowed:     m.decided("allowed"),
		Denied:      m.decided("denied"),
		Degraded:    m.decided("degraded"),
		Charged:     m.decided("charged"),
		LeaseEnded:  m.leaseEnded,
		StoreCalled: m.storeCalled,
	}
}

// with has the attributes that every metric has, and more.
func (m *meter) with(backend, key string, more ...attribute.KeyValue) metric.MeasurementOption {
	attrs := append(make([]attribute.KeyValue, 0, 2+len(more)), attribute.String(attrBackend, backend))
	if m.class != nil {
		attrs = append(attrs, attribute.String(attrKey, m.class(key)))
	}
	return metric.WithAttributeSet(attribute.NewSet(append(attrs, more...)...))
}

func outcome(o observe.Outcome) attribute.KeyValue { return attribute.String(attrOutcome, string(o)) }

func (m *meter) decided(decision string) func(context.Context, observe.Decision) {
	return func(ctx context.Context, e observe.Decision) {
		what, op := attribute.String(attrDecision, decision), attribute.String(attrOp, e.Op)
		if e.Shadow {
			what = attribute.String(attrDecision, "shadow-"+decision)
		}
		m.decisions.Add(ctx, 1, m.with(e.Backend, e.Key, what, op, attribute.Bool(attrCached, e.Cached), attribute.Bool(attrLeased, e.Leased)))
		if e.Granted > 0 {
			m.permits.Add(ctx, int64(e.Granted), m.with(e.Backend, e.Key, what, op))
		}
	}
}

func (m *meter) leaseEnded(ctx context.Context, e observe.LeaseEnded) {
	for _, fate := range [...]struct {
		name string
		n    int
	}{{"spent", e.Spent}, {"returned", e.Returned}, {"wasted", e.Wasted}} {
		if fate.n > 0 {
			m.leased.Add(ctx, int64(fate.n), m.with(e.Backend, e.Key, attribute.String(attrFate, fate.name)))
		}
	}
}

// storeCalled has no key, not even a class of one: a request may be for many.
func (m *meter) storeCalled(ctx context.Context, e observe.StoreCall) {
	backend, op := attribute.String(attrBackend, e.Backend), attribute.String(attrOp, e.Op)
	result := observe.OutcomeOK
	if e.Failed() {
		result = observe.OutcomeError
		m.errors.Add(ctx, 1, metric.WithAttributes(backend, op))
	}
	m.calls.Record(ctx, e.Took.Seconds(), metric.WithAttributes(backend, op, outcome(result)))
}
