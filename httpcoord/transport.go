package httpcoord

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/middleware"
)

// Transport is an http.RoundTripper for calls of a service that limits its clients: "a
// supplier's 2000 a minute", kept over all machines that share the store. Each request
// takes a permit and waits for it as long as its context allows; a wait that cannot end before the
// deadline fails at once. With FailFast nothing waits. The error of a request that was
// not sent matches coord.ErrLimited, and is a *coord.Error with RetryAfter, inside the
// *url.Error of http.Client.
//
// When the service itself answers 429 or 503 with Retry-After, requests of that key pause for
// so long, and then take permits again: those of this Transport, and with Shared those of all
// machines.
//
// Limiter and Limit are needed. Do not change a Transport that is in use. It is safe
// for concurrent use.
type Transport struct {
	// Base sends the requests. The default is http.DefaultTransport.
	Base http.RoundTripper
	// Limiter is usually a *coord.Client.
	Limiter coord.Limiter
	// Limit of the service.
	Limit coord.Limit
	// Key names the account that a request counts against; "" is none: it is sent at
	// once. The default is the host, as coord.Key("http", host).
	Key func(*http.Request) string
	// FailFast makes a request fail that would have to wait.
	FailFast bool
	// Shared tells other machines of pauses that the service asks for, and is asked for
	// theirs once a second and key. Usually it is the same *coord.Client. The default keeps
	// pauses to this Transport.
	Shared PauseStore

	pauses middleware.Pauses
}

// PauseStore is what Transport.Shared needs of a [coord.Client]. A pause is a lock
// that stays taken for as long as it lasts.
type PauseStore interface {
	TryLock(ctx context.Context, key string, opts ...coord.LockOption) (*coord.Lock, error)
	Inspect(ctx context.Context, key string) (coord.Holder, error)
}

// MaxPause is the longest that a Transport pauses because a service says so.
const MaxPause = middleware.MaxPause

// RoundTrip sends r when there is a permit.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	key := t.key(r)
	if key == "" {
		return t.base().RoundTrip(r)
	}
	out := t.outgoing()
	if err := out.Admit(r.Context(), key); err != nil {
		if r.Body != nil { // a RoundTripper closes it, whatever happens
			_ = r.Body.Close() // what matters is why nothing was sent
		}
		return nil, err
	}
	resp, err := t.base().RoundTrip(r)
	if err == nil {
		out.Learn(r.Context(), key, pauseOf(resp))
	}
	return resp, err
}

// CloseIdleConnections closes those of Base, for http.Client.CloseIdleConnections.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (t *Transport) outgoing() *middleware.Outgoing {
	return &middleware.Outgoing{Op: "send", Limiter: t.Limiter, Limit: t.Limit, FailFast: t.FailFast, Shared: t.Shared, Pauses: &t.pauses}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

func (t *Transport) key(r *http.Request) string {
	if t.Key != nil {
		return t.Key(r)
	}
	return coord.Key("http", r.URL.Host)
}

// pauseOf is what a response asks for; 0 is nothing.
func pauseOf(resp *http.Response) time.Duration {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	pause, _ := retryAfter(resp.Header)
	return pause
}

// retryAfter reads Retry-After (RFC 9110, part 10.2.3): seconds, or a date, which is
// compared with the sender's own Date where it is given, since its clock may differ.
func retryAfter(h http.Header) (time.Duration, bool) {
	v := h.Get("Retry-After")
	if n, err := strconv.ParseUint(v, 10, 64); err == nil {
		return time.Duration(min(n, uint64(MaxPause/time.Second))) * time.Second, true
	}
	if v != "" && strings.Trim(v, "0123456789") == "" { // more than any integer holds
		return MaxPause, true
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0, false
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return at.Sub(now), true
}
