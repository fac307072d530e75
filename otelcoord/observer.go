package otelcoord

import (
	"context"

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
			m.lockWait.Record(ctx, e.Waited.Seconds(), m.with(e.Backend, e.Key, outcome(observe.OutcomeOK), label{attrWay, string(e.Way)}))
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
			m.losses.Add(ctx, 1, m.with(e.Backend, e.Key, label{attrReason, string(e.Reason)}))
			m.lockHold.Record(ctx, e.Held.Seconds(), m.with(e.Backend, e.Key, label{attrEnd, string(e.Reason)}))
			m.held.Add(ctx, -1, m.with(e.Backend, e.Key))
		},
		Released: func(ctx context.Context, e observe.Released) {
			t.released(e)
			end := "released"
			if e.HandedOver {
				end = "handed_over"
			}
			m.lockHold.Record(ctx, e.Held.Seconds(), m.with(e.Backend, e.Key, label{attrEnd, end}))
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

// with has the attributes that every metric of locks and limits has, and at most two more.
func (m *meter) with(backend, key string, more ...label) metric.MeasurementOption {
	return m.sets.of(m.labels(backend, key, more...))
}

func (m *meter) labels(backend, key string, more ...label) labels {
	l := labels{backend: backend}
	if m.class != nil {
		l.key = label{attrKey, m.class(key)}
	}
	copy(l.more[:], more)
	return l
}

func outcome(o observe.Outcome) label { return label{attrOutcome, string(o)} }

func (m *meter) decided(decision string) func(context.Context, observe.Decision) {
	return func(ctx context.Context, e observe.Decision) {
		what, op := label{attrDecision, decision}, label{attrOp, e.Op}
		if e.Shadow {
			what.value = "shadow-" + decision
		}
		l := m.labels(e.Backend, e.Key, what, op)
		if e.Granted > 0 {
			m.permits.Add(ctx, int64(e.Granted), m.sets.of(l))
		}
		l.decision, l.cached, l.leased = true, e.Cached, e.Leased
		m.decisions.Add(ctx, 1, m.sets.of(l))
	}
}

func (m *meter) leaseEnded(ctx context.Context, e observe.LeaseEnded) {
	for _, fate := range [...]struct {
		name string
		n    int
	}{{"spent", e.Spent}, {"returned", e.Returned}, {"wasted", e.Wasted}} {
		if fate.n > 0 {
			m.leased.Add(ctx, int64(fate.n), m.with(e.Backend, e.Key, label{attrFate, fate.name}))
		}
	}
}

// storeCalled has no key, not even a class of one: a request may be for many.
func (m *meter) storeCalled(ctx context.Context, e observe.StoreCall) {
	l := labels{backend: e.Backend, more: [2]label{{attrOp, e.Op}}}
	result := observe.OutcomeOK
	if e.Failed() {
		result = observe.OutcomeError
		m.errors.Add(ctx, 1, m.sets.of(l))
	}
	l.more[1] = outcome(result)
	m.calls.Record(ctx, e.Took.Seconds(), m.sets.of(l))
}
