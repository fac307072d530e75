package observe

import (
	"context"
	"errors"
	"time"

	"github.com/coordgo/coord/driver"
)

// Call is a call of the application.
type Call struct {
	// Op is "lock", "trylock", "do", "trydo" or "wait".
	Op string
	// Backend is the store's name: "redis".
	Backend string
	Key     string
	// Limit and N of a "wait".
	Limit driver.Limit
	N     int
}

// CallEnded is a call that is over.
type CallEnded struct {
	Call
	Took    time.Duration
	Outcome Outcome
	// Err is what the call returns; coord.ErrLocked of a "trydo" that did not run its function, nil
	// if that panicked.
	Err      error
	Panicked bool
}

// Outcome is how a call ended. It is also the text for metrics.
type Outcome string

const (
	OutcomeOK          Outcome = "ok"          // granted; of Do, its function had the lock to the end
	OutcomeRefused     Outcome = "refused"     // locked, or limited
	OutcomeTimedOut    Outcome = "timed_out"   // the context's deadline, or coord.WaitAtMost
	OutcomeCancelled   Outcome = "cancelled"   // the caller has gone
	OutcomeLost        Outcome = "lost"        // of Do: the hold ended first; of Lock: re-entry after that
	OutcomeUnavailable Outcome = "unavailable" // the store could not be reached, or its answer is unknown
	OutcomeClosed      Outcome = "closed"      // the client was closed
	OutcomeInvalid     Outcome = "invalid"     // it could never succeed
	OutcomeError       Outcome = "error"       // anything else, such as the error of Do's function
)

// StoreCall is one request to the store.
type StoreCall struct {
	// Backend is the store's name: "redis".
	Backend string
	// Op is "trylock", "lock" (in the store's queue), "renew", "renewall", "unlock", "take",
	// "takeall", "refund", "charge", "reset", "inspect", "holders", "list" (all pages of one List) or "break".
	Op string
	// Key is "" where there are several; of "list" it is the prefix.
	Key  string
	Took time.Duration
	Err  error
}

// Failed reports an error that is no answer: the store could not be reached, did
// not serve the call, or holds what is not coord's. A caller who has gone is no failure.
func (s StoreCall) Failed() bool {
	switch err := s.Err; {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, driver.ErrLocked): // a wait that was too long is ErrLocked
		return false
	case errors.Is(err, driver.ErrCorrupt):
		return true
	default:
		return errors.Is(err, driver.ErrNotSent) || !driver.Definite(err)
	}
}
