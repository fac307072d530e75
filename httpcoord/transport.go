package httpcoord

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/coordgo/coord"
)

// Transport is an http.RoundTripper for calls of a service that limits its clients: "a
// supplier's 2000 a minute", kept over all machines that share the store. Each request
// takes a permit and waits for it as long as its context allows; a wait that cannot end before the
// deadline fails at once. With FailFast nothing waits. The error of a request that was
// not sent matches coord.ErrLimited, and is a *coord.Error with RetryAfter, inside the
// *url.Error of http.Client.
//
// When the service itself answers 429 or 503 with Retry-After, requests of that key pause for
// so long, in this process, and then take permits again.
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

	mu     sync.Mutex
	pauses map[string]time.Time // until when; guarded by mu
}

// MaxPause is the longest that a Transport pauses because a service says so.
const MaxPause = time.Hour

// RoundTrip sends r when there is a permit.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	key := t.key(r)
	if key == "" {
		return t.base().RoundTrip(r)
	}
	if err := t.admit(r.Context(), key); err != nil {
		if r.Body != nil { // a RoundTripper closes it, whatever happens
			_ = r.Body.Close() // what matters is why nothing was sent
		}
		return nil, err
	}
	resp, err := t.base().RoundTrip(r)
	if err == nil {
		t.learn(key, resp)
	}
	return resp, err
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

// admit takes a permit, and waits for it and for the end of a pause. A permit that was
// taken before a pause must not be used after it, or more than the limit could be
// sent at once then: it counts as spent, and another is taken.
func (t *Transport) admit(ctx context.Context, key string) error {
	for {
		if pause := t.paused(key); pause > 0 {
			if err := t.sit(ctx, key, pause); err != nil {
				return err
			}
			continue
		}
		if err := t.take(ctx, key); err != nil {
			return err
		}
		if t.paused(key) == 0 {
			return nil
		}
	}
}

func (t *Transport) take(ctx context.Context, key string) error {
	if !t.FailFast {
		return t.Limiter.Wait(ctx, key, t.Limit)
	}
	r, err := t.Limiter.Allow(ctx, key, t.Limit)
	if err == nil && !r.Allowed {
		err = limitedFor(key, r.RetryAfter, coord.ErrLimited)
	}
	return err
}

// sit waits for the end of a pause.
func (t *Transport) sit(ctx context.Context, key string, pause time.Duration) error {
	if t.FailFast {
		return limitedFor(key, pause, coord.ErrLimited)
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < pause {
		return limitedFor(key, pause, fmt.Errorf("%w: %w", coord.ErrLimited, context.DeadlineExceeded))
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		err := ctx.Err()
		if cause := context.Cause(ctx); !errors.Is(cause, err) {
			err = fmt.Errorf("%w: %w", err, cause)
		}
		return limitedFor(key, 0, fmt.Errorf("%w: %w", coord.ErrLimited, err))
	}
}

func limitedFor(key string, after time.Duration, err error) error {
	return &coord.Error{Op: "send", Key: key, RetryAfter: after, Err: err}
}

// paused is for how long requests of key have to pause yet.
func (t *Transport) paused(key string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	until, ok := t.pauses[key]
	if !ok {
		return 0
	}
	rest := time.Until(until)
	if rest <= 0 {
		delete(t.pauses, key)
		return 0
	}
	return rest
}

// learn begins or lengthens a pause.
func (t *Transport) learn(key string, resp *http.Response) {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return
	}
	pause, ok := retryAfter(resp.Header)
	if !ok || pause <= 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(t.pauses, func(_ string, until time.Time) bool { return !until.After(now) })
	if t.pauses == nil {
		t.pauses = make(map[string]time.Time)
	}
	if until := now.Add(min(pause, MaxPause)); until.After(t.pauses[key]) {
		t.pauses[key] = until
	}
}

// retryAfter reads Retry-After (RFC 9110, part 10.2.3): seconds, or a date, which is
// compared with the sender's own Date where it is given, since its clock may differ.
func retryAfter(h http.Header) (time.Duration, bool) {
	v := h.Get("Retry-After")
	if n, err := strconv.ParseUint(v, 10, 64); err == nil {
		return time.Duration(min(n, uint64(MaxPause/time.Second))) * time.Second, true
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
