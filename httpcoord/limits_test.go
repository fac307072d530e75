package httpcoord

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/middleware/middlewaretest"
	"github.com/coordgo/coord/internal/testlog"
	"github.com/coordgo/coord/rules"
)

// one is a rule with one limit.
func one(name string, s rules.Subject, l coord.Limit) rules.Rule {
	return rules.Rule{Name: name, Subject: s, Limits: []rules.Limit{{Limit: l}}}
}

// A client that comes back after Retry-After is admitted, and what it is told adds up.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := Limits{Limiter: middlewaretest.Client(t), Rules: middlewaretest.Chain(t, one("burst", rules.IP(), coord.Per(2, 10*time.Second)), one("daily", rules.IP(), coord.Per(100, 24*time.Hour)))}.Wrap(ok)
		for i := range 2 {
			w := serve(h, "GET", "/")
			policies, limits := parseFields(t, w.Header())
			if w.Code != 200 || len(policies) != 2 || len(limits) != 2 {
				t.Fatalf("%d %v", w.Code, w.Header())
			}
			if policies[0].name != "burst" || policies[0].params["q"] != 2 || policies[0].params["w"] != 10 || limits[0].params["r"] != int64(1-i) {
				t.Errorf("request %d: %v %v", i, policies, limits)
			}
		}
		w := serve(h, "GET", "/")
		p := wantProblem(t, w, 429)
		if p.Type != "https://iana.org/assignments/http-problem-types#quota-exceeded" || len(p.Violated) != 1 || p.Violated[0] != "burst" {
			t.Errorf("%+v", p)
		}
		after, err := strconv.Atoi(w.Header().Get("Retry-After"))
		_, limits := parseFields(t, w.Header())
		if err != nil || after < 1 || after > 11 || limits[0].params["r"] != 0 || limits[0].params["t"] > int64(after) {
			t.Errorf("Retry-After %q, limits %v", w.Header().Get("Retry-After"), limits)
		}
		time.Sleep(time.Duration(after) * time.Second)
		if w := serve(h, "GET", "/"); w.Code != 200 {
			t.Errorf("after Retry-After: %d", w.Code)
		}
	})
}

func TestLimitsSubjects(t *testing.T) {
	year := coord.Per(1, 8000*time.Hour)
	for name, tc := range map[string]struct {
		subject rules.Subject
		same    bool
		a, b    func(*http.Request)
	}{
		"two addresses":             {rules.IP(), false, from("192.0.2.1:1"), from("192.0.2.2:1")},
		"two ports":                 {rules.IP(), true, from("192.0.2.1:1"), from("192.0.2.1:2")},
		"one network of IPv6":       {rules.IP(), true, from("[2001:db8::1]:1"), from("[2001:db8::ffff:2]:1")},
		"two networks of IPv6":      {rules.IP(), false, from("[2001:db8::1]:1"), from("[2001:db8:0:1::1]:1")},
		"whole addresses of IPv6":   {rules.Subject{Kind: rules.KindIP, IPv6Bits: 128}, false, from("[2001:db8::1]:1"), from("[2001:db8::2]:1")},
		"IPv4 in IPv6":              {rules.IP(), true, from("[::ffff:192.0.2.1]:1"), from("192.0.2.1:1")},
		"a forged header":           {rules.IP(), true, with("X-Forwarded-For", "198.51.100.1"), with("X-Forwarded-For", "198.51.100.2")},
		"two users":                 {rules.User(), false, with("User", "ann"), with("User", "bob")},
		"two hosts":                 {rules.Header("host"), false, func(r *http.Request) { r.Host = "a" }, func(r *http.Request) { r.Host = "b" }},
		"behind a proxy":            {rules.IP(), false, behind("198.51.100.1"), behind("198.51.100.2")},
		"behind a proxy, forged":    {rules.IP(), true, behind("203.0.113.1, 198.51.100.1"), behind("203.0.113.2, 198.51.100.1")},
		"headers, with and without": {rules.Header("X-Tenant"), false, with("X-Tenant", "a"), func(*http.Request) {}},
	} {
		t.Run(name, func(t *testing.T) {
			h := Limits{
				Limiter: middlewaretest.Client(t), Rules: middlewaretest.Chain(t, one("r", tc.subject, year)), Proxies: Proxies{Trusted: PrivateNetworks()},
				User: func(r *http.Request) string { return r.Header.Get("User") },
			}.Wrap(ok)
			if w := serve(h, "GET", "/", tc.a); w.Code != 200 {
				t.Fatal(w.Code)
			}
			if w := serve(h, "GET", "/", tc.b); w.Code == 429 != tc.same {
				t.Errorf("the other request: %d: want counted together %v", w.Code, tc.same)
			}
		})
	}
}

func behind(values string) func(*http.Request) {
	return func(r *http.Request) {
		r.RemoteAddr = "10.0.0.1:1"
		r.Header.Set("X-Forwarded-For", values)
	}
}

func TestLimitsOptions(t *testing.T) {
	h := Limits{
		Limiter: middlewaretest.Client(t), Rules: middlewaretest.Chain(t, one("r", rules.Everyone(), coord.Per(10, 8000*time.Hour))), Fields: NoFields, Log: new(testlog.Buffer).Logger(),
		Permits: func(r *http.Request) int { return len(r.URL.Path) },
		Deny: func(w http.ResponseWriter, _ *http.Request, d *rules.Decision) {
			http.Error(w, d.Tightest().Name(), http.StatusTeapot)
		},
	}.Wrap(ok)
	if w := serve(h, "GET", "/123456"); w.Code != 200 || w.Header().Get("RateLimit-Policy") != "" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	w := serve(h, "GET", "/123")
	if w.Code != http.StatusTeapot || strings.TrimSpace(w.Body.String()) != "r" || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
	}
	if w := serve(h, "GET", "/12345678901"); w.Code != 413 {
		t.Errorf("more than the limit ever grants: %d: want 413", w.Code)
	}
}

// Live follows rules that are exchanged while requests run.
func TestLive(t *testing.T) {
	var now atomic.Pointer[rules.Chain]
	now.Store(middlewaretest.Chain(t, one("r", rules.Everyone(), coord.Per(1, 8000*time.Hour))))
	h := Limits{Limiter: middlewaretest.Client(t), Rules: Live(now.Load)}.Wrap(ok)
	first, second := serve(h, "GET", "/"), serve(h, "GET", "/")
	now.Store(middlewaretest.Chain(t, one("r", rules.Everyone(), coord.Per(2, 8000*time.Hour))))
	third, fourth := serve(h, "GET", "/"), serve(h, "GET", "/")
	if got := [4]int{first.Code, second.Code, third.Code, fourth.Code}; got != [4]int{200, 429, 200, 429} {
		t.Errorf("%v: the debt is kept, and one more is admitted under the new limit", got)
	}
}

// broken is a store that answers nothing.
type broken struct{ driver.Backend }

func (b broken) TryLock(context.Context, string, driver.Request) (driver.Grant, error) {
	return driver.Grant{}, errBroken
}

func (b broken) Renew(context.Context, string, driver.Request) (driver.Grant, error) {
	return driver.Grant{}, errBroken
}

func (b broken) Unlock(context.Context, string, string) error { return nil }

func (b broken) Take(context.Context, string, driver.Limit, []driver.Ask) (driver.Taken, error) {
	return driver.Taken{}, errBroken
}

func (b broken) TakeOne(context.Context, string, driver.Limit, driver.Ask) (driver.TakenOne, error) {
	return driver.TakenOne{}, errBroken
}

func (b broken) Reset(context.Context, string, driver.Limit) error { return errBroken }

func (b broken) Info() driver.Info {
	return driver.Info{Name: "broken", MaxTTL: time.Hour, Claims: driver.Claims{driver.ScopeProcess}}
}

func (b broken) Close() error { return nil }

func TestLimitsWithoutStore(t *testing.T) {
	limits := middlewaretest.Chain(t, one("r", rules.Header("X-Secret"), coord.PerMinute(5)))
	for _, tc := range []struct {
		policy coord.FailurePolicy
		code   int
		log    string
	}{
		{coord.FailClosed, 503, "limits cannot be checked"},
		{coord.FailOpen, 200, "admitted without their limits"},
	} {
		var out testlog.Buffer
		h := Limits{Limiter: middlewaretest.Over(t, broken{}, coord.WithFailurePolicy(tc.policy)), Rules: limits, Log: out.Logger()}.Wrap(ok)
		for range 20 {
			w := serve(h, "GET", "/", with("X-Secret", "hunter2"))
			if tc.code != 200 {
				wantProblem(t, w, tc.code)
			} else if w.Code != 200 || w.Header().Get("RateLimit") != "" || w.Header().Get("RateLimit-Policy") == "" {
				t.Errorf("%d %v", w.Code, w.Header())
			}
		}
		if s := out.String(); strings.Count(s, "\n") != 1 || !strings.Contains(s, tc.log) || !strings.Contains(s, "broken") || strings.Contains(s, "hunter2") {
			t.Errorf("policy %d: 20 requests logged %q: want one line", tc.policy, s)
		}
	}
	var out testlog.Buffer
	h := Limits{Limiter: middlewaretest.Over(t, broken{}), Rules: limits, Log: out.Logger()}.Wrap(ok)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	serve(h, "GET", "/", func(r *http.Request) { *r = *r.WithContext(gone) })
	if s := out.String(); s != "" {
		t.Errorf("a client that has gone was logged: %s", s)
	}
}

func BenchmarkLimits(b *testing.B) {
	year := 8000 * time.Hour
	all := one("all", rules.Everyone(), coord.Per(1<<39, year))
	order, spared, tried := one("order", rules.PathValue("id"), all.Limits[0].Limit), all, all
	order.Match.Path = "/orders/{id}"
	spared.Match.ExceptNetworks = privateNetworks(100)
	tried.Name, tried.Shadow = "tried", true
	for _, bench := range []struct {
		name  string
		rules []rules.Rule
	}{
		{"one", []rules.Rule{all}},
		{"address", []rules.Rule{one("address", rules.IP(), coord.Per(1<<39, year))}},
		{"two", []rules.Rule{one("address", rules.IP(), coord.Per(1<<39, year)), one("all", rules.Everyone(), coord.Per(1<<39, year))}},
		{"path", []rules.Rule{order}},
		{"cookie", []rules.Rule{one("session", rules.Cookie("session"), all.Limits[0].Limit)}},
		{"100 networks", []rules.Rule{spared}},
		{"shadow", []rules.Rule{all, tried}},
		{"denied", []rules.Rule{one("all", rules.Everyone(), coord.Per(1, year))}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			h := Limits{Limiter: middlewaretest.Client(b), Rules: middlewaretest.Chain(b, bench.rules...)}.Wrap(ok)
			r := httptest.NewRequest("GET", "/orders/7", nil)
			r.Header.Set("Cookie", "theme=dark; session=8c1f0a2e5d7b4936")
			w := &sink{h: make(http.Header)}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.h)
				h.ServeHTTP(w, r)
			}
		})
	}
}

// privateNetworks are n networks in which no test has an address.
func privateNetworks(n int) (list []netip.Prefix) {
	for i := range n {
		list = append(list, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, 0}), 16))
	}
	return list
}

// sink is a ResponseWriter that keeps nothing.
type sink struct{ h http.Header }

func (s *sink) Header() http.Header         { return s.h }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }
func (s *sink) WriteHeader(int)             {}

// A store that never answers costs a request no more than Timeout, and then the failure policy decides.
func TestLimitsTimeout(t *testing.T) {
	for name, tc := range map[string]struct {
		policy  coord.FailurePolicy
		timeout time.Duration
		status  int
		within  time.Duration
	}{
		"open":           {coord.FailOpen, 0, 200, DefaultTimeout},
		"closed":         {coord.FailClosed, 0, 503, DefaultTimeout},
		"another":        {coord.FailOpen, 50 * time.Millisecond, 200, 50 * time.Millisecond},
		"the context's":  {coord.FailOpen, -1, 200, 20 * time.Second},
		"a longer one's": {coord.FailOpen, time.Minute, 200, 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := middlewaretest.Over(t, middlewaretest.Silent{}, coord.WithFailurePolicy(tc.policy))
				h := Limits{Limiter: c, Rules: middlewaretest.Chain(t, one("a", rules.IP(), coord.PerHour(1))), Timeout: tc.timeout, Log: slog.New(slog.DiscardHandler)}.Wrap(ok)
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				began := time.Now()
				w := serve(h, "GET", "/", func(r *http.Request) { *r = *r.WithContext(ctx) })
				if took := time.Since(began); w.Code != tc.status || took < tc.within || took > tc.within+200*time.Millisecond {
					t.Errorf("%d after %v: want %d after %v", w.Code, took, tc.status, tc.within)
				}
			})
		})
	}
}

// oneAtATime is a store that cannot take several limits at once.
type oneAtATime struct {
	driver.Backend
}

func (p oneAtATime) Info() driver.Info {
	info := p.Backend.Info()
	info.Claims = info.Claims.Without(driver.AtomicMulti)
	return info
}

// A request that meets two limits where the store can only do one is the program's mistake, and the log names the remedy.
func TestLimitsNeedSeveralAtOnce(t *testing.T) {
	backend := memory.New()
	store := oneAtATime{backend}
	chain := middlewaretest.Chain(t, one("a", rules.IP(), coord.PerHour(5)), one("b", rules.Everyone(), coord.PerHour(5)))
	var out testlog.Buffer
	wantProblem(t, serve(Limits{Limiter: middlewaretest.Over(t, store), Rules: chain, Log: out.Logger()}.Wrap(ok), "GET", "/"), 500)
	if s := out.String(); !strings.Contains(s, "WithBestEffort, or let one limit apply") {
		t.Errorf("logged %q: want the remedy", s)
	}
}

// What a client provokes is told to it, and a mistake of the program is found when it starts.
func TestLimitsMistakes(t *testing.T) {
	c := middlewaretest.Client(t)
	limits := Limits{
		Limiter: c, Rules: middlewaretest.Chain(t, one("a", rules.IP(), coord.PerHour(5))),
		Permits: func(r *http.Request) int { return int(r.ContentLength) },
	}
	body := func(n int64) func(*http.Request) { return func(r *http.Request) { r.ContentLength = n } }
	if w := serve(limits.Wrap(ok), "POST", "/", body(5)); w.Code != 200 {
		t.Errorf("%d", w.Code)
	}
	if p := wantProblem(t, serve(limits.Wrap(ok), "POST", "/", body(6)), 413); p.Detail == "" {
		t.Error("413 without a reason")
	}
	for name, wrap := range map[string]func(){
		"a nil Live":      func() { Limits{Limiter: c, Rules: Live(nil)}.Wrap(ok) },
		"a large Window":  func() { Idempotency{Store: c, Window: 1 << 62}.Wrap(ok) },
		"a Window of 1ns": func() { Idempotency{Store: c, Window: 1}.Wrap(ok) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s is not refused", name)
				}
			}()
			wrap()
		}()
	}
}
