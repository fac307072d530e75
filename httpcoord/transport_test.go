package httpcoord

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/internal/middleware/middlewaretest"
)

// supplier answers requests in the bubble, and notes when they came.
type supplier struct {
	mu    sync.Mutex
	came  []time.Time
	reply func(n int) (status int, header http.Header)
}

func (s *supplier) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.came = append(s.came, time.Now())
	w := httptest.NewRecorder()
	w.Code = 200
	if s.reply != nil {
		status, header := s.reply(len(s.came))
		for k, v := range header {
			w.Header()[k] = v
		}
		w.WriteHeader(status)
	}
	return w.Result(), nil
}

func get(ctx context.Context, rt http.RoundTripper, url string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := (&http.Client{Transport: rt}).Do(r)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// Several processes keep one limit together, in every window.
func TestTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		limit := coord.Per(5, time.Second)
		var s supplier
		var wg sync.WaitGroup
		for range 3 {
			c := middlewaretest.Over(t, store.Open())
			rt := &Transport{Base: &s, Limiter: c, Limit: limit}
			for range 10 {
				wg.Go(func() {
					if code, err := get(t.Context(), rt, "https://supplier.example/quote"); code != 200 || err != nil {
						t.Errorf("%d %v", code, err)
					}
				})
			}
		}
		wg.Wait()
		if len(s.came) != 30 {
			t.Fatalf("%d came: want 30", len(s.came))
		}
		for i := limit.Rate; i < len(s.came); i++ {
			if d := s.came[i].Sub(s.came[i-limit.Rate]); d < limit.Per {
				t.Errorf("requests %d to %d within %v", i-limit.Rate, i, d)
			}
		}
	})
}

// limited is what a request must end with that was not sent.
func wantLimited(t *testing.T, err error, also error) time.Duration {
	t.Helper()
	if !errors.Is(err, coord.ErrLimited) || also != nil && !errors.Is(err, also) {
		t.Fatalf("%v: want ErrLimited and %v", err, also)
	}
	e, ok := errors.AsType[*coord.Error](err)
	if !ok {
		t.Fatalf("%v holds no *coord.Error", err)
	}
	return e.RetryAfter
}

func TestTransportGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := coord.Per(1, 10*time.Second)
		var s supplier
		fast := &Transport{Base: &s, Limiter: middlewaretest.Client(t), Limit: limit, FailFast: true}
		if _, err := get(t.Context(), fast, "https://a.example/"); err != nil {
			t.Fatal(err)
		}
		_, err := get(t.Context(), fast, "https://a.example/")
		if after := wantLimited(t, err, nil); after <= 0 || after > 11*time.Second {
			t.Errorf("retry after %v", after)
		}
		if _, err := get(t.Context(), fast, "https://b.example/"); err != nil {
			t.Errorf("another host: %v", err)
		}

		slow := &Transport{Base: &s, Limiter: middlewaretest.Client(t), Limit: limit}
		if _, err := get(t.Context(), slow, "https://a.example/"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err = get(ctx, slow, "https://a.example/")
		wantLimited(t, err, context.DeadlineExceeded)
		if d := time.Since(began); d > 0 {
			t.Errorf("a wait in vain took %v", d)
		}
		if len(s.came) != 3 {
			t.Errorf("%d requests were sent: want 3", len(s.came))
		}
		free := &Transport{Base: &s, Limiter: middlewaretest.Client(t), Limit: limit, FailFast: true, Key: func(r *http.Request) string { return "" }}
		for range 3 {
			if _, err := get(t.Context(), free, "https://a.example/"); err != nil {
				t.Errorf("without a key: %v", err)
			}
		}
	})
}

// A body is closed although nothing was sent.
func TestTransportClosesBody(t *testing.T) {
	rt := &Transport{Base: &supplier{}, Limiter: middlewaretest.Over(t, broken{}), Limit: coord.PerSecond(1)}
	body := &closing{Reader: strings.NewReader("x")}
	r := httptest.NewRequest("POST", "https://a.example/", nil)
	r.Body = body
	if _, err := rt.RoundTrip(r); !errors.Is(err, coord.ErrUnavailable) {
		t.Errorf("%v: want ErrUnavailable", err)
	}
	if !body.closed {
		t.Error("the body was left open")
	}
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}

// When the service says to come back later, nobody goes before.
func TestTransportPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &supplier{reply: func(n int) (int, http.Header) {
			if n == 1 {
				return 429, http.Header{"Retry-After": {"30"}}
			}
			return 200, nil
		}}
		rt := &Transport{Base: s, Limiter: middlewaretest.Client(t), Limit: coord.PerSecond(5)}
		if code, err := get(t.Context(), rt, "https://a.example/"); code != 429 || err != nil {
			t.Fatalf("%d %v: the answer is the caller's", code, err)
		}
		rt.FailFast = true
		_, err := get(t.Context(), rt, "https://a.example/")
		if after := wantLimited(t, err, nil); after != 30*time.Second {
			t.Errorf("retry after %v: want 30s", after)
		}
		rt.FailFast = false
		short, cancel := context.WithTimeout(t.Context(), 29*time.Second)
		defer cancel()
		_, err = get(short, rt, "https://a.example/")
		wantLimited(t, err, context.DeadlineExceeded)
		ctx, leave := context.WithCancelCause(t.Context())
		gone := errors.New("gone home")
		time.AfterFunc(time.Second, func() { leave(gone) })
		_, err = get(ctx, rt, "https://a.example/")
		if !errors.Is(err, gone) {
			wantLimited(t, err, context.Canceled)
		}
		if _, err := get(t.Context(), rt, "https://b.example/"); err != nil {
			t.Errorf("another host pauses too: %v", err)
		}
		var wg sync.WaitGroup
		for range 12 {
			wg.Go(func() {
				if _, err := get(t.Context(), rt, "https://a.example/"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		first, later := s.came[0], s.came[2:]
		for i, at := range later {
			if at.Before(first.Add(30 * time.Second)) {
				t.Errorf("request %d came %v after the 429", i, at.Sub(first))
			}
			if i >= 5 && at.Sub(later[i-5]) < time.Second {
				t.Errorf("six requests within %v after the pause", at.Sub(later[i-5]))
			}
		}
	})
}

// A pause that one machine was told of is kept by all that share the store, within a second.
func TestTransportsShareAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := "memory://" + rand.Text()
		s := &supplier{reply: func(n int) (int, http.Header) {
			if n == 1 {
				return 503, http.Header{"Retry-After": {"30"}}
			}
			return 200, nil
		}}
		machine := func(failFast bool) *Transport {
			c, err := coord.Open(t.Context(), store)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() }) // one is closed before
			return &Transport{Base: s, Limiter: c, Shared: c, Limit: coord.PerSecond(100), FailFast: failFast}
		}
		told, fast, slow := machine(false), machine(true), machine(false)
		alone := &Transport{Base: s, Limiter: fast.Limiter, Limit: fast.Limit, FailFast: true}
		if code, err := get(t.Context(), told, "https://a.example/"); code != 503 || err != nil {
			t.Fatalf("%d %v", code, err)
		}
		began := time.Now()
		_, err := get(t.Context(), fast, "https://a.example/")
		if after := wantLimited(t, err, nil); after < 29*time.Second || after > 30*time.Second {
			t.Errorf("another machine: retry after %v", after)
		}
		if _, err := get(t.Context(), fast, "https://b.example/"); err != nil {
			t.Errorf("another host pauses too: %v", err)
		}
		if _, err := get(t.Context(), alone, "https://a.example/"); err != nil {
			t.Errorf("without Shared: %v", err)
		}
		if err := told.Limiter.(*coord.Client).Close(); err != nil { // it has not the pause alone
			t.Fatal(err)
		}
		if _, err := get(t.Context(), slow, "https://a.example/"); err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d < 29*time.Second || d > 31*time.Second {
			t.Errorf("a request that waits was sent after %v", d)
		}
		time.Sleep(2 * time.Second)
		if _, err := get(t.Context(), fast, "https://a.example/"); err != nil {
			t.Errorf("after the pause: %v", err)
		}
	})
}

// A store that is away makes no pause, and a pause that cannot be told is kept here.
func TestSharedPauseWithoutAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &supplier{reply: func(int) (int, http.Header) { return 429, http.Header{"Retry-After": {"30"}} }}
		closed := coordClosed(t)
		rt := &Transport{Base: s, Limiter: middlewaretest.Client(t), Shared: closed, Limit: coord.PerSecond(100), FailFast: true}
		if code, err := get(t.Context(), rt, "https://a.example/"); code != 429 || err != nil {
			t.Errorf("%d, %v", code, err)
		}
		_, err := get(t.Context(), rt, "https://a.example/")
		wantLimited(t, err, nil)
	})
}

func coordClosed(t *testing.T) *coord.Client {
	c := middlewaretest.Client(t)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRetryAfter(t *testing.T) {
	const date = "Wed, 21 Oct 2015 07:28:00 GMT"
	for _, tc := range []struct {
		h    http.Header
		want time.Duration
		ok   bool
	}{
		{http.Header{}, 0, false},
		{http.Header{"Retry-After": {"120"}}, 2 * time.Minute, true},
		{http.Header{"Retry-After": {"0"}}, 0, true},
		{http.Header{"Retry-After": {"-1"}}, 0, false},
		{http.Header{"Retry-After": {"1.5"}}, 0, false},
		{http.Header{"Retry-After": {"18446744073709551615"}}, MaxPause, true},
		{http.Header{"Retry-After": {"99999999999999999999"}}, MaxPause, true},
		{http.Header{"Retry-After": {"Wed, 21 Oct 2015 07:29:30 GMT"}, "Date": {date}}, 90 * time.Second, true},
		{http.Header{"Retry-After": {"soon"}}, 0, false},
	} {
		if got, ok := retryAfter(tc.h); got != tc.want || ok != tc.ok {
			t.Errorf("%v: %v %v: want %v %v", tc.h, got, ok, tc.want, tc.ok)
		}
	}
	if d, ok := retryAfter(http.Header{"Retry-After": {time.Now().Add(time.Minute).UTC().Format(http.TimeFormat)}}); !ok || d < 55*time.Second || d > time.Minute {
		t.Errorf("without Date: %v %v", d, ok)
	}
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("120", "")
	f.Add("Wed, 21 Oct 2015 07:29:30 GMT", "Wed, 21 Oct 2015 07:28:00 GMT")
	f.Add("-1", "x")
	f.Fuzz(func(t *testing.T, after, date string) {
		rt := &Transport{}
		rt.outgoing().Learn(t.Context(), "k", pauseOf(&http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {after}, "Date": {date}}}))
		if p := rt.pauses.Rest("k"); p < 0 || p > MaxPause {
			t.Errorf("%q %q: a pause of %v", after, date, p)
		}
	})
}

func TestRetryAfterOfAnySize(t *testing.T) {
	for v, want := range map[string]time.Duration{
		"7": 7 * time.Second, "99999": MaxPause, "18446744073709551615": MaxPause, "18446744073709551616": MaxPause, "99999999999999999999999999": MaxPause,
	} {
		if got, ok := retryAfter(http.Header{"Retry-After": {v}}); !ok || got != want {
			t.Errorf("Retry-After %s: %v, %v: want %v", v, got, ok, want)
		}
	}
	if _, ok := retryAfter(http.Header{}); ok {
		t.Error("no Retry-After is one")
	}
}

// idle is a transport that notes that it was told to close its connections.
type idle struct {
	http.RoundTripper
	closed bool
}

func (i *idle) CloseIdleConnections() { i.closed = true }

func TestTransportClosesIdleConnections(t *testing.T) {
	base := new(idle)
	(&http.Client{Transport: &Transport{Base: base}}).CloseIdleConnections()
	if !base.closed {
		t.Error("the connections of Base stay open")
	}
}
