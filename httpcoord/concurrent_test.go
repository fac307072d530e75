package httpcoord

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/coordtest"
	"github.com/coordgo/coord/internal/middleware/middlewaretest"
	"github.com/coordgo/coord/internal/testlog"
)

func oneKey(*http.Request) string { return "reports" }

// At most n requests are served at a time, over two servers, and all are served.
func TestConcurrent(t *testing.T) {
	const n = 3
	c := middlewaretest.Client(t)
	var inside, most, served atomic.Int64
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		now := inside.Add(1)
		defer inside.Add(-1)
		for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
		}
		if lock, held := c.Semaphore(n).Held(r.Context(), "reports"); !held || lock.Slot() >= n {
			t.Error("the handler has no permit")
		}
		served.Add(1)
	})
	limited := Concurrent{Semaphore: c.Semaphore(n), Key: oneKey, Wait: time.Minute}
	servers := []http.Handler{limited.Wrap(handler), limited.Wrap(handler)}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			if w := serve(servers[i%2], "POST", "/"); w.Code != 200 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	wg.Wait()
	if most.Load() > n || served.Load() != 40 {
		t.Errorf("%d at once, %d served: want at most %d, and 40", most.Load(), served.Load(), n)
	}
}

// Beyond n requests wait for a while, beyond MaxWaiting they do not, and the refusal says when to come again.
func TestConcurrentRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := coordtest.New(t)
		leave := make(chan struct{})
		limited := Concurrent{
			Semaphore: c.Semaphore(1), Key: oneKey, Wait: 2 * time.Second, MaxWaiting: 1, RetryAfter: 1500 * time.Millisecond,
			Status: http.StatusTooManyRequests,
		}
		h := limited.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-leave }))
		codes := make(chan int, 2)
		var wg sync.WaitGroup
		for range 2 { // one is served, one waits
			wg.Go(func() { codes <- serve(h, "GET", "/").Code })
			synctest.Wait()
		}
		began := time.Now()
		w := serve(h, "GET", "/")
		if w.Code != 429 || w.Header().Get("Retry-After") != "2" || time.Since(began) > 0 {
			t.Errorf("a third request: %d, Retry-After %q after %v: want 429 and 2 at once", w.Code, w.Header().Get("Retry-After"), time.Since(began))
		}
		if code := <-codes; code != 429 || time.Since(began) != 2*time.Second {
			t.Errorf("the one that waited: %d after %v, want 429 after 2s", code, time.Since(began))
		}
		close(leave)
		if code := <-codes; code != 200 {
			t.Errorf("the one that was served: %d", code)
		}
		wg.Wait()
	})
}

// Heavy requests take several permits, and one that takes more than there are is told so.
func TestConcurrentWeight(t *testing.T) {
	c := coordtest.New(t)
	weight := 0
	limited := Concurrent{Semaphore: c.Semaphore(2), Key: oneKey, Weight: func(*http.Request) int { return weight }}
	nested := limited.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		holders, err := c.Semaphore(2).Holders(r.Context(), "reports")
		if err != nil || len(holders) != 1 || holders[0].Weight != int64(max(weight, 1)) {
			t.Errorf("%+v, %v, want one with %d", holders, err, max(weight, 1))
		}
	}))
	for _, tc := range []struct{ weight, code int }{{0, 200}, {2, 200}, {3, 413}, {-1, 500}} {
		weight = tc.weight
		if w := serve(nested, "GET", "/"); w.Code != tc.code {
			t.Errorf("weight %d: %d, want %d", tc.weight, w.Code, tc.code)
		}
	}
	limited.Key = func(*http.Request) string { return "" }
	if w := serve(limited.Wrap(http.NotFoundHandler()), "GET", "/"); w.Code != 404 {
		t.Errorf("a request that needs no permit: %d", w.Code)
	}
}

// While the store is away requests are refused, or served without a permit if the program says so.
func TestConcurrentWithoutItsStore(t *testing.T) {
	c := coordtest.New(t)
	c.Cut()
	var log testlog.Buffer
	limited := Concurrent{Semaphore: c.Semaphore(1), Key: oneKey, Log: log.Logger()}
	if w := serve(limited.Wrap(http.NotFoundHandler()), "GET", "/"); w.Code != 503 {
		t.Errorf("%d, want 503", w.Code)
	}
	limited.FailOpen = true
	if w := serve(limited.Wrap(http.NotFoundHandler()), "GET", "/"); w.Code != 404 {
		t.Errorf("with FailOpen: %d, want the handler's 404", w.Code)
	}
	if text := log.String(); !strings.Contains(text, "requests are refused") || !strings.Contains(text, "served without a permit") {
		t.Errorf("logged: %q", text)
	}
}

// What can never work panics when the server is set up.
func TestConcurrentNeeds(t *testing.T) {
	c := coordtest.New(t)
	for name, limited := range map[string]Concurrent{"Semaphore": {Key: oneKey}, "Key": {Semaphore: c.Semaphore(1)}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("without %s: no panic", name)
				}
			}()
			limited.Wrap(http.NotFoundHandler())
		}()
	}
}
