package httpcoord

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/middleware"
	"github.com/coordgo/coord/rules"
)

// DefaultTimeout is for how long a request, or a call of gRPC, waits for the store of its limits.
const DefaultTimeout = middleware.DefaultTimeout

// Rules decide on requests. [*rules.Chain] does, and [Live] does by the chain of the moment.
type Rules interface {
	Allow(ctx context.Context, limiter rules.Limiter, r *rules.Request) (rules.Decision, error)
}

// Live is the rules that a function gives for each request, for rules that are
// reloaded while the service runs.
type Live func() *rules.Chain

// Allow asks the chain of the moment.
func (l Live) Allow(ctx context.Context, limiter rules.Limiter, r *rules.Request) (rules.Decision, error) {
	return l().Allow(ctx, limiter, r)
}

// Limits is middleware that admits requests as rules allow. Limiter and Rules are needed; the
// other fields have defaults. Do not change it after Wrap.
//
// A request that is denied is answered with 429, Retry-After and the problem type
// "quota-exceeded". Clients see the names of the rules, or of their limits, and nothing of
// what they count. Under coord.FailOpen, a store that is unavailable lets requests through, and
// that is logged once in a while; under FailClosed, the default, they are answered with 503.
type Limits struct {
	// Limiter is usually a *coord.Client.
	Limiter rules.Limiter
	// Rules say which limits a request counts against.
	Rules Rules
	// Proxies find the client's address for rules that count by it. The default
	// is the address that the connection comes from.
	Proxies Proxies
	// User finds who the request is from, for rules that count by user. It must come
	// from authentication, not from what a client may claim. "" is nobody: all of these count together. Without User, a
	// request that a rule counts by user is answered with 500.
	User func(*http.Request) string
	// Funcs are the functions for subjects of [rules.Func], by name.
	// A request that needs one that is not here is answered with 500. A mux sets PathValue before it calls a
	// handler: put Wrap around the handler, not around the mux.
	Funcs map[string]func(*http.Request) string
	// Permits is how many a request takes; 0 is 1. The default is 1. More than a limit ever grants is answered with 413.
	Permits func(*http.Request) int
	// Fields is the version of the response fields. The default is Latest.
	Fields Fields
	// Deny answers a request that is denied; the fields and Retry-After are set by
	// then. The default is 429 with problem details.
	Deny func(http.ResponseWriter, *http.Request, *rules.Decision)
	// Shadow is called, before the request is served, of each rule in shadow mode that would have denied it. The default
	// is a line in the log, of each rule once in a while. Either way the response has the names of these rules in the field
	// Coord-Shadow, unless there are NoFields. A rule that cannot be checked is logged.
	Shadow func(http.ResponseWriter, *http.Request, *rules.Shadow)
	// Timeout is the longest that a request waits for the store. Then the failure policy decides: a limit must not
	// cost more than it protects. If one has waited that long while nobody was answered, one request at a time asks the
	// store until it answers, and the policy decides the others at once.
	// 0 is DefaultTimeout; with a negative one, each request waits as long as its context allows.
	Timeout time.Duration
	// Log takes warnings. The default is slog.Default().
	Log *slog.Logger
}

// Wrap puts the limits before next. It panics without Limiter or Rules, also if Rules is a nil Live.
func (l Limits) Wrap(next http.Handler) http.Handler {
	if l.Limiter == nil || l.Rules == nil {
		panic("httpcoord: Limits needs a Limiter and Rules")
	}
	if live, ok := l.Rules.(Live); ok && live == nil {
		panic("httpcoord: Limits needs Rules, and Live is nil")
	}
	if l.Deny == nil {
		l.Deny = deny
	}
	return &limited{
		Limits: l, next: next, log: middleware.Logger{Log: l.Log},
		breaker: middleware.Breaker{Rules: l.Rules, Limiter: l.Limiter, Timeout: l.Timeout},
	}
}

// limited is a handler behind limits.
type limited struct {
	Limits
	breaker middleware.Breaker
	log     middleware.Logger
	next    http.Handler
}

func (l *limited) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d, err := l.breaker.Allow(r.Context(), l.request(r))
	if err != nil {
		l.fail(w, r, err)
		return
	}
	l.Fields.Write(w.Header(), &d)
	if !d.Allowed {
		setRetryAfter(w.Header(), d.RetryAfter())
		l.Deny(w, r, &d)
		return
	}
	if err := d.Degraded(); err != nil {
		l.log.Warn(r.Context(), "coord: requests are admitted without their limits: the store is unavailable", err)
	}
	l.shadow(w, r, &d)
	l.next.ServeHTTP(w, r)
}

// shadow tells what rules in shadow mode have decided.
func (l *limited) shadow(w http.ResponseWriter, r *http.Request, d *rules.Decision) {
	var deny func(*rules.Shadow)
	if l.Shadow != nil {
		deny = func(s *rules.Shadow) { l.Shadow(w, r, s) }
	}
	l.log.Shadows(r.Context(), d, deny)
}

// request is r in the terms of rules.
func (l *limited) request(r *http.Request) *rules.Request {
	q := &rules.Request{Method: r.Method, Path: r.URL.EscapedPath(), IP: l.Proxies.Of(r), Header: header(r), Cookie: cookie(r)}
	if q.NoUser = l.User == nil; !q.NoUser {
		q.User = l.User(r)
	}
	q.Func = func(name string) (string, bool) {
		f := l.Funcs[name]
		if f == nil {
			return "", false
		}
		return f(r), true
	}
	if l.Permits != nil {
		q.N = l.Permits(r)
	}
	return q
}

// header looks headers up as rules name them. net/http keeps Host apart.
func header(r *http.Request) func(string) string {
	return func(name string) string {
		if name = http.CanonicalHeaderKey(name); name == "Host" {
			return r.Host
		}
		return r.Header.Get(name)
	}
}

// cookie looks cookies up as handlers do: of several of one name it is the first.
func cookie(r *http.Request) func(string) string {
	return func(name string) string {
		if c, err := r.Cookie(name); err == nil {
			return c.Value
		}
		return ""
	}
}

func deny(w http.ResponseWriter, _ *http.Request, d *rules.Decision) {
	var violated []string
	for i := range d.Bounds {
		if d.Bounds[i].Result.RetryAfter > 0 {
			violated = append(violated, policyName(d.Bounds, i))
		}
	}
	quotaExceeded(violated).write(w)
}

// fail answers a request that could not be decided.
func (l *limited) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, coord.ErrExceedsBurst) { // Permits is what the client has sent
		plain(http.StatusRequestEntityTooLarge, "The request takes more permits than its limit ever grants. Send a smaller one.").write(w)
		return
	}
	unavailable(w, r, &l.log, "coord: requests are refused: their limits cannot be checked", err)
}

// unavailable answers a request for which the store was of no use: 503, or 500 if the
// program, and not the store, is to blame.
func unavailable(w http.ResponseWriter, r *http.Request, log *middleware.Logger, text string, err error) {
	status := http.StatusServiceUnavailable
	if middleware.Mistake(err) {
		status = http.StatusInternalServerError
	}
	if r.Context().Err() == nil { // the client has gone: nothing to report
		log.Warn(r.Context(), text, err)
	}
	plain(status, "").write(w)
}
