package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/coordgo/coord/server/coordpb"
)

// operation is one path.
type operation struct {
	path, summary   string
	request, answer reflect.Type
	serve           func(s *Server, w http.ResponseWriter, r *http.Request) (answer any, err error)
}

// operations are all of them. What each may do depends on its keys, so that each asks the caller.
func operations() []operation {
	return []operation{
		operationOf("/v1/locks/acquire", "Hold a key, or several, all or none", (*Server).acquire),
		operationOf("/v1/locks/renew", "Hold on: moves the end of a hold by its TTL", (*Server).renew),
		operationOf("/v1/locks/release", "Give a hold back; the holder believes nothing from when it sends this", (*Server).release),
		operationOf("/v1/locks/inspect", "See who holds a key", (*Server).inspect),
		operationOf("/v1/locks/list", "List the keys that are held", (*Server).list),
		operationOf("/v1/locks/break", "Revoke a hold: the key stays taken until its lease ends", (*Server).breakHold),
		operationOf("/v1/limits/take", "Take permits of a limit, or of several, all or none", (*Server).take),
		operationOf("/v1/limits/peek", "See what is left of a limit", (*Server).peek),
		operationOf("/v1/limits/reset", "Forget what was taken from a limit", (*Server).reset),
		operationOf("/v1/limits/charge", "Debit permits, whatever is left", (*Server).charge),
		operationOf("/v1/limits/settle", "Correct an estimate: charge what was used beyond it, or give the rest back", (*Server).settle),
		operationOf("/v1/limits/reserve", "Take permits of a token bucket that are due later", (*Server).reserve),
		operationOf("/v1/limits/cancel", "Give a reservation back", (*Server).cancel),
	}
}

func operationOf[Q, A any](path, summary string, do func(*Server, context.Context, *caller, *Q) (*A, error)) operation {
	serve := func(s *Server, w http.ResponseWriter, r *http.Request) (any, error) {
		q := new(Q)
		if err := decode(w, r, q); err != nil {
			return nil, err
		}
		ctx, cancel := r.Context(), context.CancelFunc(func() {})
		if !strings.HasSuffix(path, "/acquire") && !strings.HasSuffix(path, "/take") { // those have waits of their own
			ctx, cancel = context.WithTimeout(ctx, callTime)
		}
		defer cancel()
		return do(s, ctx, callerOf(r), q)
	}
	return operation{path, summary, reflect.TypeFor[Q](), reflect.TypeFor[A](), serve}
}

// maxBody bounds the body of a request, and ioTime how long it and the answer may take on their way.
const (
	maxBody = 64 << 10
	ioTime  = 10 * time.Second
)

// decode reads the only JSON object of the body.
func decode(w http.ResponseWriter, r *http.Request, q any) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return errMediaType
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return errTooLarge
	case err != nil:
		return invalid("the body did not come whole")
	}
	unhurried(w)
	if err := named(text, reflect.TypeOf(q).Elem()); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(q); err != nil {
		return invalid("body: " + strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return invalid("body: more than one JSON value")
	}
	return nil
}

// unhurried ends the bound of ServeHTTP: the caller may take its time from now on, and its leaving is noticed.
func unhurried(w http.ResponseWriter) { _ = http.NewResponseController(w).SetReadDeadline(time.Time{}) }

// named refuses names that are not those of t, letter by letter, and an object that lacks one that it must have.
func named(text []byte, t reflect.Type) error {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(text, &given); err != nil {
		return invalid("body: want one JSON object: " + strings.TrimPrefix(err.Error(), "json: "))
	}
	for _, f := range fieldsOf(t) {
		if given[f.name] == nil && f.required {
			return invalid("body: no " + strconv.Quote(f.name))
		}
		delete(given, f.name)
	}
	for name := range given {
		return invalid("body: unknown name " + strconv.Quote(name))
	}
	return nil
}

// jsonField is a field of a type as JSON has it.
type jsonField struct {
	reflect.StructField
	name     string
	required bool
}

func fieldsOf(t reflect.Type) (list []jsonField) {
	for _, f := range reflect.VisibleFields(t) {
		if name, omit, _ := strings.Cut(f.Tag.Get("json"), ","); !f.Anonymous && name != "" {
			list = append(list, jsonField{f, name, omit != "omitempty"})
		}
	}
	return list
}

// callerKey is the key of the caller in the context of a request.
type callerKey struct{}

func callerOf(r *http.Request) *caller { return callerIn(r.Context()) }

func callerIn(ctx context.Context) *caller { return ctx.Value(callerKey{}).(*caller) }

// ServeHTTP answers one request. A panic ends that request alone.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Also of a request that is refused: what is left of its body is read before the next one.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(ioTime)) // a recorder of a test has none
	_, route := s.mux.Handler(r)
	seen := &recorder{ResponseWriter: w, route: route, began: time.Now()}
	defer func() {
		if p := recover(); p != nil {
			if err := s.panicked(p); seen.status == 0 {
				fail(seen, err)
			}
		}
		s.told(seen, r)
	}()
	if slices.Contains(open, route) {
		s.mux.ServeHTTP(seen, r)
		return
	}
	c, err := s.callers.of(r)
	if err == nil {
		seen.caller = c.name
		if !slices.Contains(quick, route) {
			err = s.enter(c)
			defer c.requests.Add(-1)
		}
	}
	if err != nil {
		fail(seen, err)
		return
	}
	s.mux.ServeHTTP(seen, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
}

// told writes a request down.
func (s *Server) told(seen *recorder, r *http.Request) {
	took, level := time.Since(seen.began), slog.LevelInfo
	if slices.Contains(often, seen.route) && (seen.status == http.StatusOK || seen.status == http.StatusTooManyRequests) {
		level = slog.LevelDebug
	}
	s.meters.request(seen.route, attribute.Int("http.response.status_code", seen.status), took)
	s.log.LogAttrs(r.Context(), level, "request", slog.String("method", r.Method), slog.String("path", r.URL.Path),
		slog.String("caller", seen.caller), slog.Int("status", seen.status), slog.Duration("took", took))
}

// open are the routes that need no token.
var open = append([]string{
	"GET /livez", "GET /readyz", healthpb.Health_Check_FullMethodName, healthpb.Health_Watch_FullMethodName,
}, pageOpen...)

// often are the routes whose requests are many, and say little where they were answered.
var often = append(slices.Clip(open), envoyRoute, envoyMethod)

// quick are the routes that are not counted: no number of waiting requests may keep a holder from its hold.
var quick = []string{
	"POST /v1/locks/renew", "POST /v1/locks/release", coordpb.Locks_Renew_FullMethodName, coordpb.Locks_Release_FullMethodName,
}

// enter counts a request that is under way, also one that it refuses.
func (s *Server) enter(c *caller) error {
	if c.requests.Add(1) > int64(s.cfg.MaxRequests) {
		return errBusy
	}
	return nil
}

// panicked is the error of a panic. Goroutines that are no request's recover too, for what others hold has to go on.
func (s *Server) panicked(p any) error {
	s.log.Error("coord serve: a panic", "panic", p, "stack", string(debug.Stack()))
	return errPanic
}

// recorder notes what is told of a request, and bounds how long its answer may take on its way.
type recorder struct {
	http.ResponseWriter
	route, caller string
	began         time.Time
	status        int
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(ioTime))
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
