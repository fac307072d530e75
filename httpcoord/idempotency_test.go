package httpcoord

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/coordtest"
	"github.com/coordgo/coord/internal/middleware/middlewaretest"
	"github.com/coordgo/coord/internal/testlog"
)

const uuid = `"8e03978e-40d5-43e8-bc93-6894a57f9324"`

// counted counts what it serves, and answers with status.
func counted(n *atomic.Int64, status int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n.Add(1)
		if status != 0 {
			w.WriteHeader(status)
		}
	})
}

// Of many requests with one key, on two servers at once and afterwards, one is served.
func TestIdempotencyServesOne(t *testing.T) {
	c := middlewaretest.Client(t)
	var n atomic.Int64
	m := Idempotency{Store: c}
	a, b := m.Wrap(counted(&n, 201)), m.Wrap(counted(&n, 201))
	var created, refused atomic.Int64
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			h := a
			if i%2 == 0 {
				h = b
			}
			switch w := serve(h, "POST", "/orders", with("Idempotency-Key", uuid)); w.Code {
			case 201:
				created.Add(1)
			case 409:
				refused.Add(1)
			default:
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	wg.Wait()
	if n.Load() != 1 || created.Load() != 1 || refused.Load() != 39 {
		t.Errorf("%d ran, %d created, %d refused: want 1, 1, 39", n.Load(), created.Load(), refused.Load())
	}
	wantProblem(t, serve(a, "POST", "/orders", with("Idempotency-Key", uuid)), 409)
	for name, w := range map[string]int{
		"another key":    serve(a, "POST", "/orders", with("Idempotency-Key", `"other"`)).Code,
		"another path":   serve(a, "POST", "/refunds", with("Idempotency-Key", uuid)).Code,
		"another method": serve(a, "PATCH", "/orders", with("Idempotency-Key", uuid)).Code,
	} {
		if w != 201 {
			t.Errorf("%s: %d", name, w)
		}
	}
}

func TestIdempotencyWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		h := Idempotency{Store: middlewaretest.Client(t), Window: time.Hour}.Wrap(counted(&n, 0))
		post := func() int { return serve(h, "POST", "/", with("Idempotency-Key", uuid)).Code }
		if code := post(); code != 200 {
			t.Fatal(code)
		}
		time.Sleep(time.Hour - time.Second)
		if code := post(); code != 409 {
			t.Errorf("before the end of the window: %d", code)
		}
		time.Sleep(time.Second)
		if code := post(); code != 200 || n.Load() != 2 {
			t.Errorf("after the window: %d, %d served", code, n.Load())
		}
	})
}

// Which answers leave the key used.
func TestIdempotencyForgets(t *testing.T) {
	for status, again := range map[int]bool{0: false, 200: false, 201: false, 302: false, 500: false, 502: false, 400: true, 422: true, 429: true, 503: true} {
		var n atomic.Int64
		h := Idempotency{Store: middlewaretest.Client(t)}.Wrap(counted(&n, status))
		for range 2 {
			serve(h, "POST", "/", with("Idempotency-Key", uuid))
		}
		if (n.Load() == 2) != again {
			t.Errorf("status %d: served %d times: want again %v", status, n.Load(), again)
		}
	}
	var n atomic.Int64
	h := Idempotency{Store: middlewaretest.Client(t), Forget: func(status int) bool { return status == 201 }}.Wrap(counted(&n, 201))
	for range 3 {
		serve(h, "POST", "/", with("Idempotency-Key", uuid))
	}
	if n.Load() != 3 {
		t.Errorf("an own Forget: %d served: want 3", n.Load())
	}
}

// What became of the request is not known: the key stays used.
func TestIdempotencyUnknownOutcomes(t *testing.T) {
	c := coordtest.New(t)
	m := Idempotency{Store: c, Log: new(testlog.Buffer).Logger()}
	t.Run("panic", func(t *testing.T) {
		func() {
			defer func() { _ = recover() }()
			serve(m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("boom") })), "POST", "/a", with("Idempotency-Key", uuid))
		}()
		if w := serve(m.Wrap(ok), "POST", "/a", with("Idempotency-Key", uuid)); w.Code != 409 {
			t.Errorf("after a panic: %d", w.Code)
		}
	})
	t.Run("loss", func(t *testing.T) {
		var key string
		lossy := m
		lossy.Store = spy{c, &key}
		h := lossy.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c.Lose(key)
			<-r.Context().Done()
			w.WriteHeader(http.StatusServiceUnavailable) // which would free the key, were it still ours
		}))
		if w := serve(h, "POST", "/b", with("Idempotency-Key", uuid)); w.Code != 503 {
			t.Errorf("the loss: %d", w.Code)
		}
		if w := serve(m.Wrap(ok), "POST", "/b", with("Idempotency-Key", uuid)); w.Code != 409 {
			t.Errorf("after a loss: %d", w.Code)
		}
	})
}

// spy tells the key that is locked.
type spy struct {
	IdempotencyStore
	key *string
}

func (s spy) TryLock(ctx context.Context, key string, opts ...coord.LockOption) (*coord.Lock, error) {
	*s.key = key
	return s.IdempotencyStore.TryLock(ctx, key, opts...)
}

// A mark whose reply was lost is taken back: the request was not served, and may come again.
func TestIdempotencyLostReply(t *testing.T) {
	c := middlewaretest.Client(t)
	m := Idempotency{Store: &lostReply{Client: c}, Log: new(testlog.Buffer).Logger()}
	wantProblem(t, serve(m.Wrap(ok), "POST", "/", with("Idempotency-Key", uuid)), 503)
	if w := serve(m.Wrap(ok), "POST", "/", with("Idempotency-Key", uuid)); w.Code != 200 {
		t.Errorf("once more: %d", w.Code)
	}
	wantProblem(t, serve(m.Wrap(ok), "POST", "/", with("Idempotency-Key", uuid)), 409)
}

// lostReply loses the reply to its first Allow.
type lostReply struct {
	*coord.Client
	asked bool
}

func (l *lostReply) Allow(ctx context.Context, key string, limit coord.Limit) (coord.Result, error) {
	r, err := l.Client.Allow(ctx, key, limit)
	if !l.asked {
		l.asked = true
		return coord.Result{}, &coord.Error{Op: "allow", Err: coord.ErrUnknownOutcome}
	}
	return r, err
}

func TestIdempotencyOptions(t *testing.T) {
	var n atomic.Int64
	h := Idempotency{
		Store: middlewaretest.Client(t), Required: true, Scope: func(r *http.Request) string { return r.Header.Get("User") },
		Completed: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }),
	}.Wrap(counted(&n, 0))
	wantProblem(t, serve(h, "POST", "/"), 400)
	if w := serve(h, "GET", "/"); w.Code != 200 {
		t.Errorf("GET needs no key: %d", w.Code)
	}
	for _, user := range []string{"ann", "bob"} {
		if w := serve(h, "POST", "/", with("Idempotency-Key", uuid), with("User", user)); w.Code != 200 {
			t.Errorf("%s: %d", user, w.Code)
		}
	}
	if w := serve(h, "POST", "/", with("Idempotency-Key", uuid), with("User", "ann")); w.Code != http.StatusAccepted {
		t.Errorf("Completed: %d", w.Code)
	}
	if w := serve(Idempotency{Store: middlewaretest.Client(t)}.Wrap(ok), "POST", "/"); w.Code != 200 {
		t.Errorf("no key, and none required: %d", w.Code)
	}
}

// Neither policy lets a request through that could not be checked.
func TestIdempotencyWithoutStore(t *testing.T) {
	var out testlog.Buffer
	for _, policy := range []coord.FailurePolicy{coord.FailClosed, coord.FailOpen} {
		c := middlewaretest.Over(t, broken{}, coord.WithFailurePolicy(policy))
		h := Idempotency{Store: c, Log: out.Logger()}.Wrap(ok)
		wantProblem(t, serve(h, "POST", "/", with("Idempotency-Key", uuid)), 503)
		// Locks work, limits do not.
		h = Idempotency{Store: halfBroken{middlewaretest.Client(t), c}, Log: out.Logger()}.Wrap(ok)
		wantProblem(t, serve(h, "POST", "/", with("Idempotency-Key", uuid)), 503)
	}
	if strings.Contains(out.String(), "8e03978e") {
		t.Errorf("the log tells the client's key: %s", out.String())
	}
}

type halfBroken struct {
	coord.Locker
	limits *coord.Client
}

func (h halfBroken) Allow(ctx context.Context, key string, l coord.Limit) (coord.Result, error) {
	return h.limits.Allow(ctx, key, l)
}

func (h halfBroken) Peek(ctx context.Context, key string, l coord.Limit) (coord.Result, error) {
	return h.limits.Peek(ctx, key, l)
}

func (h halfBroken) Reset(ctx context.Context, key string, l coord.Limit) error {
	return h.limits.Reset(ctx, key, l)
}

func TestIdempotencyKey(t *testing.T) {
	for _, tc := range []struct {
		values []string
		want   string
		ok     bool
	}{
		{nil, "", false},
		{[]string{`"abc"`}, "abc", true},
		{[]string{` "abc" `}, "abc", true},
		{[]string{`abc`}, "abc", true},
		{[]string{uuid[1 : len(uuid)-1]}, uuid[1 : len(uuid)-1], true},
		{[]string{`"a\"b\\c"`}, `a"b\c`, true},
		{[]string{`"a b, c"`}, "a b, c", true},
		{[]string{`"abc";version=2`}, "", false},
		{[]string{`"a\nb"`}, "", false},
		{[]string{`"a\`}, "", false},
		{[]string{``}, "", false},
		{[]string{`""`}, "", false},
		{[]string{`"abc`}, "", false},
		{[]string{`a b`}, "", false},
		{[]string{`a,b`}, "", false},
		{[]string{`"ü"`}, "", false},
		{[]string{`ü`}, "", false},
		{[]string{`"a"`, `"a"`}, "", false},
		{[]string{`a`, `b`}, "", false},
		{[]string{strings.Repeat("x", 255)}, strings.Repeat("x", 255), true},
		{[]string{strings.Repeat("x", 256)}, strings.Repeat("x", 256), false},
	} {
		if got, ok := idempotencyKey(tc.values); ok != tc.ok || ok && got != tc.want {
			t.Errorf("%q: %q %v: want %q %v", tc.values, got, ok, tc.want, tc.ok)
		}
	}
	h := Idempotency{Store: middlewaretest.Client(t)}.Wrap(ok)
	wantProblem(t, serve(h, "POST", "/", with("Idempotency-Key", `"`)), 400)
}

// A key that is accepted is printable, of bounded length, and is read again from its
// canonical form.
func FuzzIdempotencyKey(f *testing.F) {
	for _, s := range []string{uuid, "abc", `"a\"b"`, `"a";v=1`, "", `"`, "?1", ":YQ==:", "@1", "1.5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, ok := idempotencyKey([]string{s})
		if !ok {
			return
		}
		if len(id) == 0 || len(id) > maxIdempotencyKey || strings.ContainsFunc(id, func(c rune) bool { return c < ' ' || c >= 0x7f }) {
			t.Errorf("%q gives %q", s, id)
		}
		canonical := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(id) + `"`
		if again, ok := idempotencyKey([]string{canonical}); !ok || again != id {
			t.Errorf("%q gives %q, but %q gives %q %v", s, id, canonical, again, ok)
		}
	})
}

func TestWrapNeedsItsParts(t *testing.T) {
	for name, wrap := range map[string]func(http.Handler) http.Handler{
		"Limits":      Limits{}.Wrap,
		"Locks":       Locks{Locker: middlewaretest.Client(t)}.Wrap,
		"Idempotency": Idempotency{}.Wrap,
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s without its parts did not panic", name)
				}
			}()
			wrap(ok)
		}()
	}
}

// Around a router and around one of its routes it is one guard.
func TestIdempotencyWrappedTwice(t *testing.T) {
	guard := Idempotency{Store: middlewaretest.Client(t)}
	h := guard.Wrap(guard.Wrap(ok))
	if w := serve(h, "POST", "/orders", with("Idempotency-Key", "k")); w.Code != 200 {
		t.Errorf("%d %s: want the handler's answer", w.Code, w.Body)
	}
	wantProblem(t, serve(h, "POST", "/orders", with("Idempotency-Key", "k")), 409)
}
