package stores

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/httpcoord"
	"github.com/coordgo/coord/internal/middleware/middlewaretest"
	"github.com/coordgo/coord/internal/testserver"
	"github.com/coordgo/coord/rules"
)

var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })

// one is a rule with one limit.
func one(name string, s rules.Subject, l coord.Limit) rules.Rule {
	return rules.Rule{Name: name, Subject: s, Limits: []rules.Limit{{Limit: l}}}
}

// parseFields gives the members of the fields about limits, none of which has a comma in its name.
func parseFields(h http.Header) (policies, limits []string) {
	return strings.Split(h.Get("RateLimit-Policy"), ", "), strings.Split(h.Get("RateLimit"), ", ")
}

// Over HTTP and a real store, from several servers at once, as many requests are
// admitted as the bound says.
func TestLimitsOnRedis(t *testing.T) {
	url := sharedRedis(t)
	const bound, servers, workers, each = 150, 3, 8, 25
	limits := middlewaretest.Chain(
		t,
		one("all", rules.Everyone(), coord.Per(bound, time.Hour)),
		one("address", rules.IP(), coord.Per(10000, time.Hour)),
	)
	prefix := coord.WithPrefix(fmt.Sprintf("httpcoord-%d:", time.Now().UnixNano())) // the server may be shared
	var admitted, denied atomic.Int64
	var wg sync.WaitGroup
	for range servers {
		c, err := coord.Open(t.Context(), url, prefix)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		s := httptest.NewServer(httpcoord.Limits{Limiter: c, Rules: limits}.Wrap(ok))
		t.Cleanup(s.Close)
		for range workers {
			wg.Go(func() {
				for range each {
					resp, err := s.Client().Get(s.URL)
					if err != nil {
						t.Error(err)
						return
					}
					_ = resp.Body.Close()
					switch policies, limits := parseFields(resp.Header); {
					case resp.StatusCode == 200 && len(policies) == 2 && len(limits) == 2:
						admitted.Add(1)
					case resp.StatusCode == 429 && len(policies) == 2 && resp.Header.Get("Retry-After") != "":
						denied.Add(1)
					default:
						t.Errorf("%d %v", resp.StatusCode, resp.Header)
					}
				}
			})
		}
	}
	wg.Wait()
	if admitted.Load() != bound || denied.Load() != servers*workers*each-bound {
		t.Errorf("%d admitted, %d denied: want %d and %d", admitted.Load(), denied.Load(), bound, servers*workers*each-bound)
	}
}

// Of many requests with one key, over two clients of a real store, one is served.
func TestIdempotencyOnRedis(t *testing.T) {
	const uuid = `"8e03978e-40d5-43e8-bc93-6894a57f9324"`
	url := sharedRedis(t)
	prefix := coord.WithPrefix(fmt.Sprintf("httpcoord-%d:", time.Now().UnixNano())) // the server may be shared
	var n atomic.Int64
	var wg sync.WaitGroup
	for range 2 {
		c, err := coord.Open(t.Context(), url, prefix)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		h := httpcoord.Idempotency{Store: c}.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			n.Add(1)
			w.WriteHeader(http.StatusCreated)
		}))
		for range 15 {
			wg.Go(func() {
				w, r := httptest.NewRecorder(), httptest.NewRequest("POST", "/orders", nil)
				r.Header.Set("Idempotency-Key", uuid)
				if h.ServeHTTP(w, r); w.Code != 201 && w.Code != 409 {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			})
		}
	}
	wg.Wait()
	if n.Load() != 1 {
		t.Errorf("served %d times: want once", n.Load())
	}
}

// How much longer a request takes over loopback than one of a bare handler.
func BenchmarkLimitsOverHTTP(b *testing.B) {
	limits := middlewaretest.Chain(b, one("address", rules.IP(), coord.Per(1<<39, 8000*time.Hour)), one("all", rules.Everyone(), coord.Per(1<<39, 8000*time.Hour)))
	for name, open := range map[string]func(b *testing.B) *coord.Client{
		"memory": func(b *testing.B) *coord.Client { return middlewaretest.Client(b) },
		"redis": func(b *testing.B) *coord.Client {
			c, err := coord.Open(b.Context(), sharedRedis(b))
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = c.Close() })
			return c
		},
	} {
		b.Run(name, func(b *testing.B) {
			bare := httptest.NewServer(ok)
			defer bare.Close()
			ours := httptest.NewServer(httpcoord.Limits{Limiter: open(b), Rules: limits}.Wrap(ok))
			defer ours.Close()
			get := func(s *httptest.Server) func() error {
				return func() error {
					resp, err := s.Client().Get(s.URL)
					if err != nil {
						return err
					}
					if resp.StatusCode != 200 {
						return errors.New(resp.Status)
					}
					var rest [16]byte
					_, _ = resp.Body.Read(rest[:])
					return resp.Body.Close()
				}
			}
			testserver.Ratio(b, get(bare), get(ours))
		})
	}
}
