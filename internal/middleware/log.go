// Package middleware is what httpcoord and grpccoord have in common: what to make of an error
// of coord, and how to tell of it without flooding the log.
package middleware

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/coordgo/coord"
)

// LogEvery is how often one middleware logs about its store.
const LogEvery = 10 * time.Second

// Logger warns once in a while.
type Logger struct {
	// Log is where; nil is slog.Default().
	Log      *slog.Logger
	throttle Throttle
	shadows  sync.Map // of rules in shadow mode: a *Throttle by name
}

// Warn reports the first of many. It leaves the key out, which may hold what a client sent.
func (l *Logger) Warn(ctx context.Context, text string, err error) {
	skipped, ok := l.throttle.Pass(LogEvery)
	if !ok {
		return
	}
	l.log().WarnContext(ctx, text, "error", keyless(err), "not_logged", skipped)
}

// keyless is err without the key.
func keyless(err error) error {
	if e, ok := errors.AsType[*coord.Error](err); ok {
		return &coord.Error{Op: e.Op, Backend: e.Backend, Err: e.Err}
	}
	return err
}

// Mistake reports whether the program, and not the store, is to blame for err.
func Mistake(err error) bool {
	for _, kind := range []error{coord.ErrInvalid, coord.ErrExceedsBurst, coord.ErrUnsupported, coord.ErrCorrupt} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}
