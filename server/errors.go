package server

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// failure is an error of this package's own.
type failure struct {
	status     int
	code, text string
}

func (f *failure) Error() string { return f.text }

var (
	errToken       = &failure{http.StatusUnauthorized, "unauthenticated", "no caller has this token or certificate"}
	errBusy        = &failure{http.StatusTooManyRequests, "too_many_requests", "max_requests of this caller are under way"}
	errBusyEnvoy   = &failure{http.StatusServiceUnavailable, errBusy.code, errBusy.text} // 429 there is a decision
	errHolds       = &failure{http.StatusTooManyRequests, "too_many_holds", "this caller has max_holds holds, or waits for them"}
	errDraining    = &failure{http.StatusServiceUnavailable, "closed", "this server is ending and grants no new holds"}
	errPanic       = &failure{http.StatusInternalServerError, "internal", "an error inside coord: its log says more"}
	errTooLarge    = &failure{http.StatusRequestEntityTooLarge, "too_large", "the body has more than 65536 bytes"}
	errMediaType   = &failure{http.StatusUnsupportedMediaType, "media_type", "want Content-Type: application/json"}
	errNoPath      = &failure{http.StatusNotFound, "no_such_path", "no such path: GET /openapi.json lists them"}
	errRequestID   = &failure{http.StatusBadRequest, "request_id_used", "request_id: it was used for another request"}
	errReservation = &failure{http.StatusNotFound, "no_such_reservation", "no such reservation: it is due, was cancelled, or is another server's"}
	errUnknown     = &failure{http.StatusConflict, "not_held", "no such hold: it ended long ago, or another server or an earlier run of this one granted it"}
	errReleased    = &failure{http.StatusConflict, "not_held", "the hold has ended: its holder released it"}
	errLost        = &failure{http.StatusConflict, "lost", "the hold has ended: the store or this server lost it"}
	errExpired     = &failure{http.StatusConflict, "lost", "the hold has ended: its holder did not renew it"}
	errDrained     = &failure{http.StatusConflict, "lost", "the hold has ended: this server is ending and renews nothing"}
	errUnconfirmed = &failure{http.StatusServiceUnavailable, "unavailable", "released, but the store has not confirmed it: the keys become free at the latest with their leases"}
)

func invalid(text string) error { return &failure{http.StatusBadRequest, "invalid", text} }

// kinds are the errors of coord, the narrower first.
var kinds = []struct {
	err    error
	status int
	code   string
}{
	{coord.ErrMaxHold, http.StatusConflict, "max_hold"},
	{coord.ErrLost, http.StatusConflict, "lost"},
	{coord.ErrLocked, http.StatusLocked, "locked"},
	{coord.ErrNotHeld, http.StatusConflict, "not_held"},
	{coord.ErrLimited, http.StatusTooManyRequests, "limited"},
	{coord.ErrExceedsBurst, http.StatusBadRequest, "exceeds_burst"},
	{coord.ErrExceedsBound, http.StatusBadRequest, "exceeds_bound"},
	{coord.ErrUnsupported, http.StatusNotImplemented, "unsupported"},
	{coord.ErrInvalid, http.StatusBadRequest, "invalid"},
	{coord.ErrCorrupt, http.StatusUnprocessableEntity, "corrupt"},
	{coord.ErrClosed, http.StatusServiceUnavailable, "closed"},
	{coord.ErrUnknownOutcome, http.StatusServiceUnavailable, "unknown_outcome"},
	{coord.ErrUnavailable, http.StatusServiceUnavailable, "unavailable"},
	{context.DeadlineExceeded, http.StatusServiceUnavailable, "unavailable"},
	{context.Canceled, http.StatusServiceUnavailable, "cancelled"},
}

// problem is the body of every error.
type problem struct {
	Error problemError `json:"error"`
}

type problemError struct {
	Code       string `json:"code" doc:"What happened, for programs: docs/errors.md explains it"`
	Message    string `json:"message" doc:"What happened, for people"`
	Key        string `json:"key,omitempty" doc:"The key that the error is about"`
	RetryAfter int64  `json:"retry_after_ms,omitempty" doc:"When it is worth trying again, where that is known"`
	Holder     string `json:"holder,omitempty" doc:"Who holds the key, where that is known"`
}

// problemOf is what a caller is told of err.
func problemOf(err error) (status int, p problem) {
	status, p.Error.Code, p.Error.Message = http.StatusInternalServerError, "internal", err.Error()
	var own *failure
	if errors.As(err, &own) {
		status, p.Error.Code = own.status, own.code
	} else {
		for _, k := range kinds {
			if errors.Is(err, k.err) {
				status, p.Error.Code = k.status, k.code
				break
			}
		}
	}
	var known *coord.Error
	if errors.As(err, &known) {
		p.Error.Key, p.Error.RetryAfter = known.Key, ceilMS(known.RetryAfter)
	}
	if p.Error.Code == "locked" { // coord's text is for programs in Go
		p.Error.Message = "someone else holds the key"
		var locked *driver.LockedError
		if errors.As(err, &locked) {
			p.Error.Holder = driver.NewHolder(locked.Holder, 0, 0).Name
		}
	}
	return status, p
}

// fail answers err.
func fail(w http.ResponseWriter, err error) {
	status, p := problemOf(err)
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if ms := p.Error.RetryAfter; ms > 0 {
		w.Header().Set("Retry-After", strconv.FormatFloat(math.Ceil(float64(ms)/1000), 'f', 0, 64))
	}
	reply(w, status, p)
}

// reply writes v, a value that always marshals.
func reply(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // a caller who has gone does not read it
}

// ceilMS is d in milliseconds, so that nobody comes back too early.
func ceilMS(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }
