package otelcoord

import (
	"slices"

	"go.opentelemetry.io/otel/metric"
)

// Metric describes one metric that the observer records.
type Metric struct {
	Name string
	// Kind is "histogram", "counter" or "up-down counter".
	Kind string
	// Unit as UCUM writes it: "s", "{lock}".
	Unit        string
	Description string
	// Attributes besides coord.backend, which all have, and coord.key.
	Attributes []string
}

// The attributes of metrics and spans.
const (
	attrBackend  = "coord.backend"
	attrKey      = "coord.key"
	attrOutcome  = "coord.outcome"
	attrWay      = "coord.way"
	attrEnd      = "coord.end"
	attrReason   = "coord.reason"
	attrDecision = "coord.decision"
	attrOp       = "coord.op"
	attrCached   = "coord.cached"
	attrLeased   = "coord.leased"
	attrFate     = "coord.fate"
)

const (
	histogram     = "histogram"
	counter       = "counter"
	upDownCounter = "up-down counter"
)

// The metrics. Their order is that of the documents.
var (
	lockAttempts  = Metric{"coord.lock.attempts", counter, "{attempt}", "Calls of Lock and TryLock that ended, by their outcome, without re-entries.", []string{attrOutcome}}
	lockWait      = Metric{"coord.lock.wait.duration", histogram, "s", "From the call of Lock or TryLock to its answer, by outcome and, where it was granted, by way.", []string{attrOutcome, attrWay}}
	lockWaiting   = Metric{"coord.lock.waiting", upDownCounter, "{waiter}", "Calls of Lock that wait now.", nil}
	lockHold      = Metric{"coord.lock.hold.duration", histogram, "s", "From the grant to the end of a hold, by how it ended.", []string{attrEnd}}
	lockHeld      = Metric{"coord.lock.held", upDownCounter, "{lock}", "Locks that are held now.", nil}
	lockReentries = Metric{"coord.lock.reentries", counter, "{entry}", "Entries into a hold under which the context was made.", nil}
	lockLosses    = Metric{"coord.lock.losses", counter, "{lock}", "Holds that ended before they were unlocked, by reason.", []string{attrReason}}
	lockRenewals  = Metric{"coord.lock.renewals", counter, "{renewal}", "Renewals of leases, by outcome.", []string{attrOutcome}}

	limitDecisions = Metric{"coord.limit.decisions", counter, "{decision}", "Answers of limits: allowed, denied, or degraded, which is admitted by the failure policy; charged, also of what is given back; remembered, or of permits taken in advance, where the store was not asked; shadow-allowed and the like of rules in shadow mode.", []string{attrDecision, attrOp, attrCached, attrLeased}}
	limitPermits   = Metric{"coord.limit.permits", counter, "{permit}", "Permits granted, those of the failure policy among them, and permits charged.", []string{attrDecision, attrOp}}
	limitLeased    = Metric{"coord.limit.leased", counter, "{permit}", "Permits taken in advance that are over, by their fate: spent, returned to the store, or wasted.", []string{attrFate}}
	limitWait      = Metric{"coord.limit.wait.duration", histogram, "s", "How long Wait and WaitN waited, by outcome.", []string{attrOutcome}}

	storeCall   = Metric{"coord.store.call.duration", histogram, "s", "Requests to the store, by what they ask; the waiting in a store's own queue is coord.op lock.", []string{attrOp, attrOutcome}}
	storeErrors = Metric{"coord.store.errors", counter, "{error}", "Requests to the store that failed: no answer, or not one of coord's.", []string{attrOp}}
)

// Metrics lists what the observer records.
func Metrics() []Metric {
	return slices.Clone([]Metric{
		lockAttempts, lockWait, lockWaiting, lockHold, lockHeld, lockReentries, lockLosses, lockRenewals,
		limitDecisions, limitPermits, limitLeased, limitWait, storeCall, storeErrors,
	})
}

// The boundaries of histograms, in seconds: of requests, from a store in memory to one that hangs;
// of waits and holds, up to an hour.
var (
	quick = []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	long  = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}
)

// meter has the instruments.
type meter struct {
	class func(string) string
	sets  sets

	attempts, reentries, losses, renewals, decisions, permits, leased, errors metric.Int64Counter

	waiting, held                        metric.Int64UpDownCounter
	lockWait, lockHold, limitWait, calls metric.Float64Histogram
}

func newMeter(p metric.MeterProvider, class func(string) string) (*meter, error) {
	b := builder{meter: p.Meter(scope)}
	m := &meter{
		class:     class,
		attempts:  b.counter(lockAttempts),
		reentries: b.counter(lockReentries),
		losses:    b.counter(lockLosses),
		renewals:  b.counter(lockRenewals),
		decisions: b.counter(limitDecisions),
		permits:   b.counter(limitPermits),
		leased:    b.counter(limitLeased),
		errors:    b.counter(storeErrors),
		waiting:   b.upDown(lockWaiting),
		held:      b.upDown(lockHeld),
		lockWait:  b.histogram(lockWait, long),
		lockHold:  b.histogram(lockHold, long),
		limitWait: b.histogram(limitWait, long),
		calls:     b.histogram(storeCall, quick),
	}
	return m, b.err
}

// builder makes instruments, and keeps the first error.
type builder struct {
	meter metric.Meter
	err   error
}

func (b *builder) note(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *builder) counter(m Metric) metric.Int64Counter {
	c, err := b.meter.Int64Counter(m.Name, metric.WithUnit(m.Unit), metric.WithDescription(m.Description))
	b.note(err)
	return c
}

func (b *builder) upDown(m Metric) metric.Int64UpDownCounter {
	c, err := b.meter.Int64UpDownCounter(m.Name, metric.WithUnit(m.Unit), metric.WithDescription(m.Description))
	b.note(err)
	return c
}

func (b *builder) histogram(m Metric, bounds []float64) metric.Float64Histogram {
	h, err := b.meter.Float64Histogram(m.Name, metric.WithUnit(m.Unit), metric.WithDescription(m.Description),
		metric.WithExplicitBucketBoundaries(bounds...))
	b.note(err)
	return h
}
