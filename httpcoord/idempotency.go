package httpcoord

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/middleware"
)

// Idempotency is middleware against double submits: of the requests with one
// Idempotency-Key (draft-ietf-httpapi-idempotency-key-header-07), on all machines that
// share the store, the handler sees one in a Window.
//
//   - While that one is served, others are answered with 409.
//   - Afterwards, too: with 409, or by Completed. Responses are not stored, so the first
//     answer is not repeated, as the draft would have it; an application that can look up
//     what it did for a key does so in Completed. A key that comes with another body
//     is not told apart from a repetition.
//   - If Forget says so of the status, the key is free again, and the client may try once more.
//   - If the process dies, the handler panics or the lock is lost, the key stays used for the
//     Window: what had been done by then is not known here.
//
// A key is marked as used before the handler runs, and the mark does not depend on the lock's lease.
// It is as durable as the store: one that loses its data, or evicts it, forgets
// keys. When the store is unavailable the answer is 503, also under coord.FailOpen.
type Idempotency struct {
	// Store is usually a *coord.Client.
	Store IdempotencyStore
	// Window is for how long a key stays used, at least. The default is 24 hours.
	Window time.Duration
	// Scope is whose key it is: equal keys of different scopes have nothing to do
	// with each other. Put the authenticated user in, or one client can use
	// up the keys of another. The method and the path are always part of it.
	Scope func(*http.Request) string
	// Methods that are guarded. The default is POST and PATCH: the others are
	// idempotent already.
	Methods []string
	// Required answers requests without a key with 400. The default lets them pass.
	Required bool
	// Forget says of a response's status that nothing was done, so that the key is
	// free. The default is true of 4xx and of 503.
	Forget func(status int) bool
	// Completed answers repetitions. The default is 409.
	Completed http.Handler
	// Options of the lock that is held while a request is served.
	Options []coord.LockOption
	// Log takes warnings. The default is slog.Default().
	Log *slog.Logger
}

// IdempotencyStore is what Idempotency needs of a [coord.Client].
type IdempotencyStore interface {
	coord.Locker
	Allow(ctx context.Context, key string, limit coord.Limit) (coord.Result, error)
	Peek(ctx context.Context, key string, limit coord.Limit) (coord.Result, error)
	Reset(ctx context.Context, key string, limit coord.Limit) error
}

// Wrap puts the guard before next. It panics without a Store, and with a Window that no limit can have.
func (m Idempotency) Wrap(next http.Handler) http.Handler {
	if m.Store == nil {
		panic("httpcoord: Idempotency needs a Store")
	}
	if m.Window <= 0 {
		m.Window = 24 * time.Hour
	}
	if _, err := (&idempotent{Idempotency: m}).mark().Normal(); err != nil {
		panic("httpcoord: Idempotency.Window: " + err.Error())
	}
	if m.Methods == nil {
		m.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	if m.Forget == nil {
		m.Forget = func(status int) bool { return status/100 == 4 || status == http.StatusServiceUnavailable }
	}
	if m.Completed == nil {
		m.Completed = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conflict("A request with this Idempotency-Key was accepted before. Look for what it did before you send it with another key.").write(w)
		})
	}
	return &idempotent{Idempotency: m, log: middleware.Logger{Log: m.Log}, next: next}
}

func conflict(detail string) problem { return plain(http.StatusConflict, detail) }

// idempotent is a handler behind the guard.
type idempotent struct {
	Idempotency
	log  middleware.Logger
	next http.Handler
}

func (m *idempotent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !slices.Contains(m.Methods, r.Method) {
		m.next.ServeHTTP(w, r)
		return
	}
	sent := r.Header.Values("Idempotency-Key")
	switch id, ok := idempotencyKey(sent); {
	case ok:
		m.once(w, r, m.key(r, id))
	case len(sent) > 0:
		plain(http.StatusBadRequest, "Idempotency-Key is not one quoted string of 1 to "+strconv.Itoa(maxIdempotencyKey)+" characters.").write(w)
	case m.Required:
		plain(http.StatusBadRequest, "Idempotency-Key is missing.").write(w)
	default:
		m.next.ServeHTTP(w, r)
	}
}

// key is the key of the lock and of the mark, of bounded length.
func (m *idempotent) key(r *http.Request, id string) string {
	scope := ""
	if m.Scope != nil {
		scope = m.Scope(r)
	}
	sum := sha256.Sum256([]byte(coord.Key(r.Method, r.URL.EscapedPath(), scope, id)))
	return coord.Key("idempotency", hex.EncodeToString(sum[:]))
}

// once serves r unless its key is, or was, in use. Around a router and around one of its routes it is one guard.
func (m *idempotent) once(w http.ResponseWriter, r *http.Request, key string) {
	guarded := guard{key, r.Context().Value(http.ServerContextKey)}
	if r.Context().Value(guardKey{}) == guarded {
		m.next.ServeHTTP(w, r)
		return
	}
	out := newRecorder(w)
	ctx := context.WithValue(r.Context(), guardKey{}, guarded)
	ran, err := coord.TryDo(ctx, m.Store, key, func(ctx context.Context) error {
		return m.locked(ctx, out, r, key)
	}, m.Options...)
	switch {
	case !ran && err == nil:
		conflict("A request with this Idempotency-Key is being served.").write(w)
	case err == nil:
	case ran && errors.Is(err, coord.ErrLost):
		lost(out, r, &m.log, err)
	default:
		unavailable(out, r, &m.log, "coord: requests are refused: their Idempotency-Key cannot be checked", err)
	}
}

// guardKey is where a context has the guard that its request is behind.
type guardKey struct{}

// guard is of one request. A server inside of another one's handler may inherit its context.
type guard struct {
	key    string
	server any // nil is none, as in a test
}

// mark is the limit that a used key has spent: one permit, which comes back after
// the window.
func (m *idempotent) mark() coord.Limit {
	return coord.Limit{Rate: 1, Per: m.Window, Burst: 1, Algorithm: coord.TokenBucket}
}

// locked runs under the lock of key.
func (m *idempotent) locked(ctx context.Context, out *recorder, r *http.Request, key string) error {
	// Looked at before it is made: if the reply to Allow is lost, the mark is known
	// to be ours, and can be taken back.
	seen, err := m.Store.Peek(ctx, key, m.mark())
	if err = certain(seen, err); err != nil {
		return err
	}
	if !seen.Allowed {
		m.Completed.ServeHTTP(out, r.WithContext(ctx))
		return nil
	}
	made, err := m.Store.Allow(ctx, key, m.mark())
	if err = certain(made, err); err != nil {
		m.forget(ctx, key)
		return err
	}
	if !made.Allowed { // the lock was lost, and another has come
		m.Completed.ServeHTTP(out, r.WithContext(ctx))
		return nil
	}
	m.next.ServeHTTP(out, r.WithContext(ctx))
	if out.status == 0 && ctx.Err() == nil {
		out.status = http.StatusOK // net/http sends it
	}
	if m.Forget(out.status) && out.begun() {
		m.forget(ctx, key)
	}
	return nil
}

// certain refuses what the failure policy would admit without the store.
func certain(r coord.Result, err error) error {
	if err == nil {
		return r.Degraded
	}
	return err
}

// forgetWithin bounds the call that frees a key.
const forgetWithin = 2 * time.Second

// forget takes the mark of key back, as long as the lock says that it is ours.
func (m *idempotent) forget(ctx context.Context, key string) {
	if l, ok := coord.Held(ctx, key); !ok || l.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), forgetWithin)
	defer cancel()
	if err := m.Store.Reset(ctx, key, m.mark()); err != nil {
		m.log.Warn(ctx, "coord: an Idempotency-Key stays used for its window although nothing was done", err)
	}
}

// maxIdempotencyKey is the longest key that is accepted, in bytes.
const maxIdempotencyKey = 255

// idempotencyKey reads the header: a String of structured fields (RFC 9651, part 3.3.3), or,
// as many clients send it, the same without quotes.
func idempotencyKey(values []string) (id string, ok bool) {
	if len(values) != 1 {
		return "", false
	}
	switch s := strings.Trim(values[0], " "); {
	case strings.HasPrefix(s, `"`):
		id, ok = sfString(s)
	default:
		id, ok = s, plainKey(s)
	}
	return id, ok && 0 < len(id) && len(id) <= maxIdempotencyKey
}

// plainKey reports whether s may go without quotes: it has nothing that needs them, and
// nothing by which a list or a parameter could be meant.
func plainKey(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c >= 0x7f || strings.ContainsRune(`",;\\`, c) })
}

// sfString reads s, which begins with a quote, as a whole String of structured fields.
func sfString(s string) (value string, ok bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), i == len(s)-1
		case c < ' ' || c >= 0x7f:
			return "", false
		case c == '\\':
			if i++; i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", false
			}
			b.WriteByte(s[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}
