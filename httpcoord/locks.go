package httpcoord

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/middleware"
)

// Locks is middleware that serves one request of a key at a time, over all machines that share
// the store. Locker and Key are needed.
//
// The context of the handler ends when the lock is lost. [coord.Held] gives the lock inside the
// handler, and so its fencing token; a [coord.Do] of the same key re-enters. The lock is given back when
// the handler returns or panics. A request for a key that is taken is answered
// with 409; when the store is unavailable, and when the lock was lost before the handler answered,
// with 503. An answer that was given after a loss cannot be taken back: a handler looks at
// its context before it says that all is well.
type Locks struct {
	// Locker is usually a *coord.Client.
	Locker coord.Locker
	// Key names the lock of a request. "" is a request that needs none. Make it of
	// what a client sends with [coord.Key]; one that is longer than coord.MaxKey, or
	// no UTF-8, is answered with 500.
	Key func(*http.Request) string
	// Wait is how long a request waits for its turn; 0 is not at all.
	Wait time.Duration
	// Options of the lock. WaitAtMost is set by Wait.
	Options []coord.LockOption
	// Log takes warnings. The default is slog.Default().
	Log *slog.Logger
}

// Wrap puts the lock before next. It panics without Locker or Key.
func (l Locks) Wrap(next http.Handler) http.Handler {
	if l.Locker == nil || l.Key == nil {
		panic("httpcoord: Locks needs a Locker and a Key")
	}
	log := &middleware.Logger{Log: l.Log}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := l.Key(r)
		if key == "" {
			next.ServeHTTP(w, r)
			return
		}
		out := newRecorder(w)
		permit := middleware.Permit{Locker: l.Locker, Key: key, Wait: l.Wait, Options: l.Options}
		ran, err := permit.Do(r.Context(), func(ctx context.Context) error {
			next.ServeHTTP(out, r.WithContext(ctx))
			return nil
		})
		switch {
		case ran && err != nil:
			lost(out, r, log, err)
		case errors.Is(err, coord.ErrLocked):
			plain(http.StatusConflict, "Another request of this kind is being served.").write(w)
		case err != nil:
			unavailable(w, r, log, "coord: requests are refused: their lock cannot be taken", err)
		}
	})
}

// lost ends a request whose lock ended before its handler.
func lost(out *recorder, r *http.Request, log *middleware.Logger, err error) {
	log.Warn(r.Context(), "coord: a request lost its lock before it was served", err)
	if !out.begun() {
		out.restart()
		plain(http.StatusServiceUnavailable, "The lock of the request was lost.").write(out)
	}
}
