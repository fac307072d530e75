package envoy_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
)

const exact = `
domain: d
counting: exact
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: all, rate_limit: {unit: minute, requests_per_unit: 3}}
  - {key: rolling, rate_limit: {unit: minute, requests_per_unit: 100, algorithm: sliding-window}}
  - {key: bucket, rate_limit: {unit: second, requests_per_unit: 1, algorithm: token-bucket, burst: 3}}
  - {key: none, rate_limit: {unit: minute, requests_per_unit: 0}}
  - {key: tried, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: q1, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: q2, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: qs, quota_mode: true, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: broken, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
`

// exactStep is a request with those descriptors, and what it must come to.
type exactStep struct{ descriptors, want string }

func key(name string) string { return `{"entries":[{"key":"` + name + `"}]}` }

func (k *kit) steps(t *testing.T, steps []exactStep) {
	t.Helper()
	for i, s := range steps {
		if got := k.ask(t, `{"domain":"d","descriptors":[`+s.descriptors+`]}`); got != s.want {
			t.Errorf("%d: %s:\ngot  %s\nwant %s", i, s.descriptors, got, s.want)
		}
	}
}

// All limits of a request are one step: one that denies costs nothing of the others.
func TestExactAllOrNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "", exact)
		both := key("user") + "," + key("all")
		k.steps(t, []exactStep{
			{both, "OK: OK 1/2 3600s, OK 2/3 60s"},
			{both, "OK: OK 0/2 3600s, OK 1/3 60s"},
		})
		for range 3 {
			k.steps(t, []exactStep{{both, "OVER_LIMIT: OVER_LIMIT 0/2 3600s, OK 1/3 60s"}})
		}
		k.steps(t, []exactStep{{key("all"), "OK: OK 0/3 60s"}})
	})
}

// The requests that can never be let in, and those that only look.
func TestExactEdges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "", exact)
		k.steps(t, []exactStep{
			{key("none") + "," + key("user"), "OVER_LIMIT: OVER_LIMIT 0/0 60s, OK 0/2 3600s"},
			{`{"entries":[{"key":"none"}],"hitsAddend":"0"}`, "OVER_LIMIT: OVER_LIMIT 0/0 60s"},
			{`{"entries":[{"key":"user"}],"hitsAddend":"3"}`, "OVER_LIMIT: OVER_LIMIT 0/2 3600s"},
			{`{"entries":[{"key":"user"}],"hitsAddend":"18446744073709551615"}`, "OVER_LIMIT: OVER_LIMIT 0/2 3600s"},
			{`{"entries":[{"key":"user"}],"hitsAddend":"0"}`, "OK: OK 2/2 3600s"},
			{key("user") + "," + key("user") + "," + key("user"), "OVER_LIMIT: OK 0/2 3600s, OK 0/2 3600s, OVER_LIMIT 0/2 3600s"},
			{key("user") + "," + key("user"), "OK: OK 0/2 3600s, OK 0/2 3600s"},
			{`{"entries":[{"key":"user"}],"limit":{"requestsPerUnit":5,"unit":"HOUR"}}`, "OK: OK 2/5 3600s"},
			{`{"entries":[{"key":"user"}],"limit":{"requestsPerUnit":5,"unit":"HOUR"}},` + key("user"), "OVER_LIMIT: OVER_LIMIT 0/5 3600s, OVER_LIMIT 0/2 3600s"},
			{`{"entries":[{"key":"nobody"}]}`, "OK: OK 0"},
		})
	})
}

// A descriptor without hits only checks: it denies where nothing is left, and then the others are not charged.
func TestExactChecks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "", exact)
		check := func(name string) string { return `{"entries":[{"key":"` + name + `"}],"hitsAddend":"0"}` }
		k.steps(t, []exactStep{
			{check("user"), "OK: OK 2/2 3600s"},
			{check("user") + "," + key("user"), "OK: OK 2/2 3600s, OK 1/2 3600s"},
			{check("user") + "," + key("all"), "OK: OK 1/2 3600s, OK 2/3 60s"},
			{key("user") + "," + key("tried"), "OK: OK 0/2 3600s, OK 0/1 60s"},
			{check("user"), "OVER_LIMIT: OVER_LIMIT 0/2 3600s"},
			{key("all") + "," + check("user") + "," + key("q1"), "OVER_LIMIT: OK 2/3 60s, OVER_LIMIT 0/2 3600s, OK 1/1 60s"},
			{check("tried") + "," + key("all"), "OK: OK 0/1 60s, OK 1/3 60s"},
			{key("q1"), "OK: OK 0/1 60s"}, // it was only looked at
			{check("q1") + "," + key("all"), "OVER_LIMIT: OVER_LIMIT 0/1 60s, OK 0/3 60s"},
			{key("all"), "OK: OK 0/3 60s"}, // what the request before took is back
			{key("bucket"), "OK: OK 2/1 1s"},
			{`{"entries":[{"key":"bucket"}],"hitsAddend":"2"}`, "OK: OK 0/1 3s"},
			{check("bucket"), "OVER_LIMIT: OVER_LIMIT 0/1 1s"},
		})
	})
}

// A rule in shadow mode takes beside the step, and one in quota mode denies together with its like. What was taken for
// a request that they deny is given back.
func TestExactModes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "", exact)
		shadow, quotas := key("user")+","+key("tried"), key("all")+","+key("q1")+","+key("q2")
		k.steps(t, []exactStep{
			{shadow, "OK: OK 1/2 3600s, OK 0/1 60s"},
			{shadow, "OK: OK 0/2 3600s, OK 0/1 60s"},
			{shadow, "OVER_LIMIT: OVER_LIMIT 0/2 3600s, OK 0/1 60s"},
			{quotas, "OK: OK 2/3 60s, OK 0/1 60s, OK 1/2 60s"},
			{quotas, "OK: OK 1/3 60s, OVER_LIMIT 0/1 60s, OK 0/2 60s"},
			{quotas, "OVER_LIMIT: OK 0/3 60s, OVER_LIMIT 0/1 60s, OVER_LIMIT 0/2 60s"},
			{key("all"), "OK: OK 0/3 60s"}, // what the request before took is back
		})
		if k.meter.seen["rate_limit.shadow_mode d.tried"] != 2 {
			t.Errorf("measured: %v", k.meter.seen)
		}
	})
}

// What stays out of the step takes nothing for a request that the step denies, and all that was taken is given back if
// the quotas deny.
func TestExactGivesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "", exact)
		two := func(name string) string { return `{"entries":[{"key":"` + name + `"}],"hitsAddend":"2"}` }
		k.steps(t, []exactStep{
			{two("user") + "," + two("q2"), "OK: OK 0/2 3600s, OK 0/2 60s"},
			{two("all") + "," + two("q2"), "OVER_LIMIT: OK 1/3 60s, OVER_LIMIT 0/2 60s"},
			{`{"entries":[{"key":"all"}],"hitsAddend":"0"}`, "OK: OK 3/3 60s"}, // both hits are back
			{key("user") + "," + key("tried"), "OVER_LIMIT: OVER_LIMIT 0/2 3600s, OK 1/1 60s"},
			{key("user") + "," + key("q1"), "OVER_LIMIT: OVER_LIMIT 0/2 3600s, OK 1/1 60s"},
			{key("q1"), "OK: OK 0/1 60s"}, // it was only looked at
			{key("all") + "," + key("qs"), "OK: OK 2/3 60s, OK 0/1 60s"},
			{key("all") + "," + key("qs"), "OK: OK 1/3 60s, OK 0/1 60s"}, // in shadow a quota denies nobody
			{key("all"), "OK: OK 0/3 60s"},
		})
	})
}

// An override in the store lowers a limit, also below what a request asks for.
func TestExactOverride(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "overrides: true", exact)
		if err := k.client.Override(t.Context(), "rls/d/user/", 0.5, time.Hour); err != nil {
			t.Fatal(err)
		}
		if _, err := k.client.Overrides(t.Context()); err != nil { // it applies them from now on
			t.Fatal(err)
		}
		k.steps(t, []exactStep{
			{`{"entries":[{"key":"user"}],"hitsAddend":"2"}`, "OVER_LIMIT: OVER_LIMIT 0/2 3600s"},
			{key("user"), "OK: OK 0/2 3600s"},
		})
	})
}

// partly is a store that does not answer for one key.
type partly struct{ driver.Backend }

func init() {
	driver.Register("partly", func(context.Context, *url.URL) (driver.Backend, error) {
		return partly{memory.NewStore().Open()}, nil
	})
}

func (p partly) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	if strings.Contains(key, "broken") {
		return driver.TakenOne{}, errAway
	}
	return p.Backend.TakeOne(ctx, key, l, a)
}

// What was taken for a request without a decision is given back.
func TestExactGivesBackAfterError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "url: partly://", exact)
		k.steps(t, []exactStep{
			{key("all") + "," + key("q2") + "," + key("broken"), "rpc error: code = Unavailable desc = coord: allow \"rls/d/broken/\" on memory: outcome unknown: store unavailable: it is away"},
			{key("all"), "OK: OK 2/3 60s"},
			{key("q2"), "OK: OK 1/2 60s"},
		})
	})
}

// Rules have any algorithm of coord.
func TestExactAlgorithms(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "", exact)
		time.Sleep(59 * time.Second)
		k.steps(t, []exactStep{
			{`{"entries":[{"key":"rolling"}],"hitsAddend":"100"}`, "OK: OK 0/100 61s"},
			{key("bucket"), "OK: OK 2/1 1s"},
			{`{"entries":[{"key":"bucket"}],"hitsAddend":"2"}`, "OK: OK 0/1 3s"},
			{key("bucket"), "OVER_LIMIT: OVER_LIMIT 0/1 1s"},
		})
		time.Sleep(2 * time.Second) // a minute has begun, and the window rolls on
		k.steps(t, []exactStep{{key("rolling"), "OVER_LIMIT: OVER_LIMIT 0/100 59s"}, {key("bucket"), "OK: OK 1/1 2s"}})
	})
}

// stuck is a store that does not answer about the rule "tried".
type stuck struct{ driver.Backend }

func init() {
	driver.Register("stuck", func(context.Context, *url.URL) (driver.Backend, error) {
		return stuck{memory.NewStore().Open()}, nil
	})
}

func (s stuck) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	if strings.Contains(key, "tried") {
		<-ctx.Done()
		return driver.TakenOne{}, ctx.Err()
	}
	return s.Backend.TakeOne(ctx, key, l, a)
}

func (s stuck) Charge(ctx context.Context, key string, l driver.Limit, n int) (driver.Charged, error) {
	if strings.Contains(key, "tried") {
		<-ctx.Done()
		return driver.Charged{}, ctx.Err()
	}
	return s.Backend.Charge(ctx, key, l, n)
}

// A request without a decision ends in time, also without a deadline of its caller.
func TestUndecided(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "url: stuck://", "domain: d\ndescriptors: [{key: tried, rate_limit: {unit: hour, requests_per_unit: 2}}]\n")
		began := time.Now()
		_, err := k.ShouldRateLimit(t.Context(), request(t, `{"domain":"d","descriptors":[`+key("tried")+`]}`))
		if took := time.Since(began); status.Code(err) != codes.DeadlineExceeded || took != 10*time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// With counting: exact it also gives back what it took.
func TestExactUndecided(t *testing.T) {
	t.Parallel()
	for _, bound := range []time.Duration{time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			k := start(t, "url: stuck://", exact)
			ctx, cancel := context.WithTimeout(t.Context(), bound)
			defer cancel()
			began := time.Now()
			_, err := k.ShouldRateLimit(ctx, request(t, `{"domain":"d","descriptors":[`+key("user")+","+key("tried")+`]}`))
			if took := time.Since(began); status.Code(err) != codes.DeadlineExceeded || took > 10*time.Second {
				t.Errorf("bound %v: %v after %v", bound, err, took)
			}
			if got := k.hit(t, "user"); !strings.HasPrefix(got, "OK: OK 1/2") {
				t.Errorf("bound %v: %s: want 1 left", bound, got)
			}
		})
	}
}
