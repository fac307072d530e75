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
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
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
		ctx, cancel := s.inTime(r.Context(), "POST "+path)
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

func callerOf(r *http.Request) *caller { return callerIn(r.Context()) }

// ServeHTTP answers one request. A panic ends that request alone.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Also of a request that is refused: what is left of its body is read before the next one.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(ioTime)) // a recorder of a test has none
	_, route := s.mux.Handler(r)
	seen := &recorder{ResponseWriter: w, request: request{
		route: route, method: r.Method, path: r.URL.Path, header: r.Header, began: time.Now(),
	}}
	defer func() {
		if p := recover(); p != nil {
			if err := s.panicked(p); seen.status == 0 {
				fail(seen, err)
			}
		}
		answered := seen.status == http.StatusOK || seen.status == http.StatusTooManyRequests
		s.told(r.Context(), &seen.request, outcome{
			slog.IntValue(seen.status), attribute.Int("http.response.status_code", seen.status), answered, seen.status >= 500 && r.Context().Err() == nil,
		})
	}()
	who := func() (*caller, error) { return s.callers.of(r) }
	if err := s.gated(r.Context(), &seen.request, who, func(ctx context.Context) error {
		s.mux.ServeHTTP(seen, r.WithContext(ctx))
		return nil
	}); err != nil {
		if route == envoyRoute && errors.Is(err, errBusy) {
			err = errBusyEnvoy
		}
		fail(seen, err)
	}
}

// recorder notes what is told of a request, and bounds how long its answer may take on its way.
type recorder struct {
	http.ResponseWriter
	request
	status int
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
