package middleware

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/shadow"
	"github.com/coordgo/coord/rules"
)

// askShadowEvery is how often a request asks a store that does not answer for a rule in shadow mode.
const askShadowEvery = 10 * time.Second

// shadows bounds what rules in shadow mode cost: they must not delay requests. When the store has left a call of theirs
// unanswered, the others are decided at once, as the client's failure policy decided that one, until it answers again.
type shadows struct {
	outage   atomic.Pointer[outage] // nil: the store answers
	throttle Throttle
}

// asked is the Limiter of a Breaker as rules see it, with the bound of shadows.
type asked Breaker

// AllowN asks for a rule with one limit.
func (a *asked) AllowN(ctx context.Context, key string, limit coord.Limit, n int) (coord.Result, error) {
	if !shadow.In(ctx) {
		r, err := a.Limiter.AllowN(ctx, key, limit, n)
		a.decided(err, r.Degraded)
		return r, err
	}
	if o := a.shadows.cut(); o != nil {
		return o.AllowN(ctx, key, limit, n)
	}
	began := time.Now()
	r, err := a.Limiter.AllowN(ctx, key, limit, n)
	a.answered(began, err, r.Degraded)
	return r, err
}

// AllowAll asks for a rule with several limits, or for several rules.
func (a *asked) AllowAll(ctx context.Context, demands ...coord.Demand) ([]coord.Result, error) {
	if !shadow.In(ctx) {
		results, err := a.Limiter.AllowAll(ctx, demands...)
		a.decided(err, degraded(results))
		return results, err
	}
	if o := a.shadows.cut(); o != nil {
		return o.AllowAll(ctx, demands...)
	}
	began := time.Now()
	results, err := a.Limiter.AllowAll(ctx, demands...)
	a.answered(began, err, degraded(results))
	return results, err
}

func degraded(results []coord.Result) (why error) {
	for _, r := range results {
		why = cmp.Or(why, r.Degraded)
	}
	return why
}

// decided notes how the client's failure policy decided, where the store did not.
func (a *asked) decided(err, degraded error) {
	if why := cmp.Or(err, degraded); errors.Is(why, coord.ErrUnavailable) {
		a.open.Store(err == nil)
	}
}

// cut is the outage to decide by; nil if the store is to be asked.
func (s *shadows) cut() *outage {
	o := s.outage.Load()
	if o == nil {
		return nil
	}
	if _, ok := s.throttle.Pass(askShadowEvery); ok {
		return nil
	}
	return o
}

// answered takes what came of a call that began then.
func (a *asked) answered(began time.Time, err, degraded error) {
	why := cmp.Or(err, degraded)
	if !errors.Is(why, coord.ErrUnavailable) {
		a.shadows.outage.Store(nil)
		return
	}
	if time.Since(began) >= (*Breaker)(a).timeout()/2 {
		a.shadows.outage.Store(&outage{Limiter: a.Limiter, why: keyless(why), open: err == nil})
		a.shadows.throttle.Pass(askShadowEvery)
	}
}

// Shadows tells what rules in shadow mode have decided about a request: denials by deny, unless it is nil, and the rest in
// the log.
func (l *Logger) Shadows(ctx context.Context, d *rules.Decision, deny func(*rules.Shadow)) {
	for i := range d.Shadow {
		s := &d.Shadow[i]
		switch {
		case s.Denied() && deny != nil:
			deny(s)
		case s.Denied(), s.Err != nil && ctx.Err() == nil: // the client has gone: nothing to report
			l.shadow(ctx, s)
		}
	}
}

// shadow logs of each rule once in a while.
func (l *Logger) shadow(ctx context.Context, s *rules.Shadow) {
	throttle, _ := l.shadows.LoadOrStore(s.Rule, new(Throttle))
	skipped, ok := throttle.(*Throttle).Pass(LogEvery)
	switch {
	case !ok:
	case s.Err != nil:
		l.log().WarnContext(ctx, "coord: a rule in shadow mode cannot be checked", "rule", s.Rule, "error", keyless(s.Err), "not_logged", skipped)
	default:
		l.log().WarnContext(ctx, "coord: a rule in shadow mode would deny requests", "rule", s.Rule, "limit", s.Tightest().Name(), "not_logged", skipped)
	}
}

// log is where to.
func (l *Logger) log() *slog.Logger {
	if l.Log == nil {
		return slog.Default()
	}
	return l.Log
}
