package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

func failurePolicy(e *env, path pathTo) {
	const allowed = 200 * time.Millisecond
	limit := driver.Limit{Rate: 10, Per: year}
	closedBackend, closedLink := path(e)
	openBackend, openLink := path(e)
	closed, open := e.clientOn(closedBackend), e.clientOn(openBackend, coord.WithFailurePolicy(coord.FailOpen))
	key := e.key("k")
	for _, c := range []*coord.Client{closed, open} {
		e.allows(c, key, limit, 1, "Allow before the outage")
	}
	blackHole(closedLink)
	blackHole(openLink)
	start := time.Now()
	r, err := closed.AllowN(e.within(allowed), key, limit, 2)
	e.wantError(err, "Allow without an answer, failing closed", coord.ErrUnavailable)
	if r.Allowed {
		e.Errorf("Allow without an answer, failing closed: saw it allowed")
	}
	e.inTime(start, allowed+prompt, "Allow without an answer")
	r, err = open.AllowN(e.within(allowed), key, limit, 2)
	e.noError(err, "Allow without an answer, failing open")
	if !r.Allowed || r.Granted != 2 || !errors.Is(r.Degraded, coord.ErrUnavailable) {
		e.Errorf("Allow without an answer, failing open: saw %+v, want 2 granted and Degraded to say why", r)
	}
	gone, cancel := context.WithCancel(e.ctx)
	cancel()
	if r, err := open.Allow(gone, key, limit); err == nil {
		e.Errorf("Allow under a cancelled context, failing open: saw %+v, want an error: the caller has gone, the store has not failed", r)
	}
	if r, err := open.AllowN(e.ctx, key, limit, -1); err == nil {
		e.Errorf("an invalid ask, failing open: saw %+v, want an error", r)
	}
	closedLink.Heal()
	openLink.Heal()
	e.allows(open, key, limit, 1, "Allow after the outage")
}
