package httpcoord

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
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

// byOrder is a key of the path; "" for /.
func byOrder(r *http.Request) string {
	if r.URL.Path == "/" {
		return ""
	}
	return coord.Key("order", r.URL.Path)
}

// At most one request of a key is served at a time, over two servers.
func TestLocks(t *testing.T) {
	c := middlewaretest.Client(t)
	var inside, most, served atomic.Int64
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := inside.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer inside.Add(-1)
		lock, held := coord.Held(r.Context(), byOrder(r))
		if !held || lock.Token() <= 0 {
			t.Error("the handler has no lock")
		}
		served.Add(1)
	})
	locks := Locks{Locker: c, Key: byOrder, Wait: time.Minute}
	a, b := locks.Wrap(handler), locks.Wrap(handler)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			h := a
			if i%2 == 0 {
				h = b
			}
			if w := serve(h, "POST", "/orders/7"); w.Code != 200 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	wg.Wait()
	if most.Load() != 1 || served.Load() != 40 {
		t.Errorf("%d at once, %d served: want 1 and 40", most.Load(), served.Load())
	}
}

// Requests exclude each other though the context of their server was made under a lock, also under the same one;
// middleware of one request does not.
func TestRequestsOfOneBaseContext(t *testing.T) {
	c := middlewaretest.Client(t)
	locks := Locks{Locker: c, Key: byOrder}
	guard := Idempotency{Store: c}
	for name, wrap := range map[string]func(http.Handler) http.Handler{
		"Locks": locks.Wrap, "Locks twice": func(h http.Handler) http.Handler { return locks.Wrap(locks.Wrap(h)) },
		"Idempotency": guard.Wrap,
	} {
		for _, key := range []string{"another", byOrder(httptest.NewRequest("POST", "/7", nil))} {
			err := coord.Lead(t.Context(), c, key, func(base context.Context) error {
				oneServed(t, base, name+" under "+key, wrap)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// oneServed wants one of two equal requests of a server with the context base to be refused.
func oneServed(t *testing.T, base context.Context, name string, wrap func(http.Handler) http.Handler) {
	entered, leave := make(chan struct{}), make(chan struct{})
	h := wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-leave
	}))
	send := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(base, "POST", "/7", nil)
		r.Header.Set("Idempotency-Key", strings.ReplaceAll(name, " ", "-"))
		h.ServeHTTP(w, r)
		return w
	}
	var wg sync.WaitGroup
	wg.Go(func() { send() })
	<-entered
	second := make(chan *httptest.ResponseRecorder, 1)
	wg.Go(func() { second <- send() })
	select {
	case w := <-second:
		if w.Code != 409 {
			t.Errorf("%s: %d: want 409", name, w.Code)
		}
	case <-entered:
		t.Errorf("%s: two requests were served at once", name)
	}
	close(leave)
	wg.Wait()
}

func TestLocksRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := middlewaretest.Client(t)
		entered, leave := make(chan struct{}), make(chan struct{})
		hold := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			entered <- struct{}{}
			<-leave
		})
		var wg sync.WaitGroup
		wg.Go(func() { serve(Locks{Locker: c, Key: byOrder}.Wrap(hold), "POST", "/7") })
		<-entered
		try, wait := Locks{Locker: c, Key: byOrder}.Wrap(ok), Locks{Locker: c, Key: byOrder, Wait: 3 * time.Second}.Wrap(ok)
		began := time.Now()
		wantProblem(t, serve(try, "POST", "/7"), 409)
		if d := time.Since(began); d > 0 {
			t.Errorf("409 took %v", d)
		}
		wantProblem(t, serve(wait, "POST", "/7"), 409)
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("409 after %v: want 3s", d)
		}
		if w := serve(try, "POST", "/8"); w.Code != 200 {
			t.Errorf("another key: %d", w.Code)
		}
		if w := serve(try, "POST", "/"); w.Code != 200 {
			t.Errorf("no key: %d", w.Code)
		}
		wg.Go(func() {
			if w := serve(wait, "POST", "/7"); w.Code != 200 {
				t.Errorf("a wait that was served: %d", w.Code)
			}
		})
		synctest.Wait()
		close(leave)
		wg.Wait()
	})
}

func TestLocksAreGivenBackByAPanic(t *testing.T) {
	c := middlewaretest.Client(t)
	h := Locks{Locker: c, Key: byOrder}.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("boom") }))
	func() {
		defer func() {
			if v := recover(); v != "boom" {
				t.Errorf("the panic became %v", v)
			}
		}()
		serve(h, "POST", "/7")
	}()
	if w := serve(Locks{Locker: c, Key: byOrder}.Wrap(ok), "POST", "/7"); w.Code != 200 {
		t.Errorf("after the panic: %d", w.Code)
	}
}

// A lock that is lost ends the handler's context, and no request looks served that was not.
func TestLocksLost(t *testing.T) {
	for name, tc := range map[string]struct {
		answer func(w http.ResponseWriter)
		code   int
	}{
		"silent handler":              {func(http.ResponseWriter) {}, 503},
		"handler that has answered":   {func(w http.ResponseWriter) { w.WriteHeader(http.StatusAccepted) }, http.StatusAccepted},
		"handler that wrote":          {func(w http.ResponseWriter) { _, _ = w.Write([]byte("x")) }, 200},
		"handler that sent the head":  {func(w http.ResponseWriter) { w.(http.Flusher).Flush() }, 200},
		"handler with its controller": {func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }, 200},
	} {
		t.Run(name, func(t *testing.T) {
			c := coordtest.New(t)
			var out testlog.Buffer
			h := Locks{Locker: c, Key: byOrder, Log: out.Logger()}.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				c.Lose(byOrder(r))
				<-r.Context().Done()
				if err := context.Cause(r.Context()); !errors.Is(err, coord.ErrLost) {
					t.Errorf("the context ended with %v: want ErrLost", err)
				}
				tc.answer(w)
			}))
			w := serve(h, "POST", "/7")
			if w.Code != tc.code {
				t.Errorf("%d %s: want %d", w.Code, w.Body, tc.code)
			}
			if out.String() == "" {
				t.Error("the loss was not logged")
			}
		})
	}
}

func TestLocksWithoutStore(t *testing.T) {
	var out testlog.Buffer
	for _, wait := range []time.Duration{0, time.Second} {
		h := Locks{Locker: middlewaretest.Over(t, broken{}), Key: byOrder, Wait: wait, Log: out.Logger()}.Wrap(ok)
		wantProblem(t, serve(h, "POST", "/7"), 503)
	}
	h := Locks{Locker: middlewaretest.Client(t), Key: func(*http.Request) string { return "\xff" }, Log: out.Logger()}.Wrap(ok)
	wantProblem(t, serve(h, "POST", "/7"), 500)
}

// Locks of one request re-enter; those of another do not.
func TestLocksReenter(t *testing.T) {
	c := middlewaretest.Client(t)
	var inner http.Handler = Locks{Locker: c, Key: byOrder}.Wrap(ok)
	twice := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := coord.Do(r.Context(), c, byOrder(r), func(ctx context.Context) error {
			inner.ServeHTTP(w, r.WithContext(ctx))
			if other := serve(inner, "POST", "/7"); other.Code != 409 {
				t.Errorf("another request: %d: want 409", other.Code)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	if w := serve(twice, "POST", "/7"); w.Code != 200 {
		t.Errorf("re-entry: %d", w.Code)
	}
	nested := Locks{Locker: c, Key: byOrder}
	h := nested.Wrap(nested.Wrap(nested.Wrap(ok)))
	if w := serve(h, "POST", "/8"); w.Code != 200 {
		t.Errorf("nested: %d", w.Code)
	}
}

// A client that leaves while it waits leaves nothing behind.
func TestLocksClientGone(t *testing.T) {
	c := middlewaretest.Client(t)
	lock, err := c.Lock(t.Context(), byOrder(httptest.NewRequest("POST", "/7", nil)))
	if err != nil {
		t.Fatal(err)
	}
	var out testlog.Buffer
	h := Locks{Locker: c, Key: byOrder, Wait: time.Hour, Log: out.Logger()}.Wrap(ok)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int)
	go func() { done <- serve(h, "POST", "/7", func(r *http.Request) { *r = *r.WithContext(ctx) }).Code }()
	cancel()
	if code := <-done; code < 400 {
		t.Errorf("%d for a client that has gone", code)
	}
	if err := lock.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	if w := serve(Locks{Locker: c, Key: byOrder}.Wrap(ok), "POST", "/7"); w.Code != 200 {
		t.Errorf("afterwards: %d", w.Code)
	}
	if s := out.String(); s != "" {
		t.Errorf("a client that has gone was logged: %s", s)
	}
}

// A hint is not yet an answer.
func TestRecorder(t *testing.T) {
	rec := newRecorder(httptest.NewRecorder())
	if rec.WriteHeader(http.StatusEarlyHints); rec.begun() {
		t.Error("103 began the answer")
	}
	if rec.WriteHeader(http.StatusSwitchingProtocols); !rec.begun() {
		t.Error("101 did not")
	}
}
