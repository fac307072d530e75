package httpcoord

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/middleware"
)

// Concurrent is middleware that serves at most so many requests of a key at a time, over all machines that share the
// store. Semaphore and Key are needed.
//
// A request that finds no permit waits for at most Wait, and is then answered with Status and Retry-After. The
// context of the handler ends when the permit is lost, as with [Locks]; the permit is given back when the handler returns or
// panics. When the store is unavailable, requests are answered with 503, unless FailOpen is set. For a rate too,
// wrap it in [Limits]: what the rate denies needs no permit.
type Concurrent struct {
	// Semaphore is usually client.Semaphore(n), where n is how many permits there are.
	Semaphore coord.Locker
	// Key names the semaphore of a request, as Locks.Key does. "" is a request that needs no permit.
	Key func(*http.Request) string
	// Weight is how many permits a request takes; nil or 0 is 1. More than there are is answered with 413.
	Weight func(*http.Request) int
	// Wait is how long a request waits for a permit; 0 is not at all.
	Wait time.Duration
	// MaxWaiting is how many requests of this process wait for one key at a time; those that come then are refused at
	// once. 0 is however many.
	MaxWaiting int
	// Status of a refusal: 0 is 503; 429 is right where the key names a client, who can send less.
	Status int
	// RetryAfter of a refusal, in whole seconds; 0 is one second.
	RetryAfter time.Duration
	// FailOpen serves requests without a permit while the store is unavailable, and logs that once in a while.
	FailOpen bool
	// Options of the lock. WaitAtMost, MaxWaiting and Weight are set by the fields above.
	Options []coord.LockOption
	// Log takes warnings. The default is slog.Default().
	Log *slog.Logger
}

// Wrap puts the semaphore before next. It panics without Semaphore or Key.
func (c Concurrent) Wrap(next http.Handler) http.Handler {
	if c.Semaphore == nil || c.Key == nil {
		panic("httpcoord: Concurrent needs a Semaphore and a Key")
	}
	log := &middleware.Logger{Log: c.Log}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := c.Key(r)
		if key == "" {
			next.ServeHTTP(w, r)
			return
		}
		out := newRecorder(w)
		ran, err := c.permit(r, key).Do(r.Context(), func(ctx context.Context) error {
			next.ServeHTTP(out, r.WithContext(ctx))
			return nil
		})
		switch {
		case ran && err != nil:
			lost(out, r, log, err)
		case errors.Is(err, coord.ErrUnavailable) && c.FailOpen && r.Context().Err() == nil:
			log.Warn(r.Context(), "coord: requests are served without a permit: the store is unavailable", err)
			next.ServeHTTP(w, r)
		case errors.Is(err, coord.ErrExceedsBound): // Weight is what the client has sent
			plain(http.StatusRequestEntityTooLarge, "The request takes more permits than there are. Send a smaller one.").write(w)
		case errors.Is(err, coord.ErrLocked):
			c.refuse(w)
		case err != nil:
			unavailable(w, r, log, "coord: requests are refused: their permits cannot be taken", err)
		}
	})
}

// permit is what one request needs.
func (c *Concurrent) permit(r *http.Request, key string) middleware.Permit {
	p := middleware.Permit{Locker: c.Semaphore, Key: key, Wait: c.Wait, MaxWaiting: c.MaxWaiting, Options: c.Options}
	if c.Weight != nil {
		p.Weight = c.Weight(r)
	}
	return p
}

// refuse answers a request for which there is no permit.
func (c *Concurrent) refuse(w http.ResponseWriter) {
	status, after := c.Status, max(int64((c.RetryAfter+time.Second-1)/time.Second), 1)
	if status == 0 {
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Retry-After", strconv.FormatInt(after, 10))
	plain(status, "As many requests of this kind as may are being served.").write(w)
}
