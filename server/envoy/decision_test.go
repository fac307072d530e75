package envoy_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/server/envoy"
)

const users = `
domain: d
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 2}
  - key: none
    rate_limit: {unit: second, requests_per_unit: 0}
  - key: free
    rate_limit: {unlimited: true}
  - key: tried
    shadow_mode: true
    rate_limit: {unit: hour, requests_per_unit: 1}
`

// A window of Unix time counts what it denies, too.
func TestCountsAsTheOriginal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "", users)
		time.Sleep(20*time.Second + time.Millisecond)
		for i, want := range []string{"OK: OK 1/2 40s", "OK: OK 0/2 40s", "OVER_LIMIT: OVER_LIMIT 0/2 40s"} {
			if got := k.hit(t, "user=ann"); got != want {
				t.Errorf("%d: %s", i, got)
			}
		}
		if got := k.hit(t, "user=bob"); got != "OK: OK 1/2 40s" {
			t.Errorf("another user: %s", got)
		}
		time.Sleep(40 * time.Second)
		const two = `{"domain":"d","hitsAddend":2,"descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}`
		for i, want := range []string{"OK: OK 0/2 60s", "OVER_LIMIT: OVER_LIMIT 0/2 60s"} {
			if got := k.ask(t, two); got != want {
				t.Errorf("the next window, %d: %s", i, got)
			}
		}
	})
}

// Each descriptor is charged by itself, in order, also one that stands there twice.
func TestDescriptors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "", users)
		ann, none := `{"entries":[{"key":"user","value":"ann"}]}`, `{"entries":[{"key":"none"}]}`
		for _, test := range []struct{ descriptors, want string }{
			{ann + "," + ann, "OK: OK 1/2 60s, OK 0/2 60s"},
			{ann + `,{"entries":[{"key":"user","value":"bob"}]}`, "OVER_LIMIT: OVER_LIMIT 0/2 60s, OK 1/2 60s"},
			{none, "OVER_LIMIT: OVER_LIMIT 0/0 1s"},
			{`{"entries":[{"key":"none"}],"hitsAddend":"0"}`, "OVER_LIMIT: OVER_LIMIT 0/0 1s"},
			{`{"entries":[{"key":"none","value":"x"}],"hitsAddend":"0"}`, "OK: OK 0/0 1s"},
			{`{"entries":[{"key":"user","value":"bob"}],"hitsAddend":"0"}`, "OK: OK 1/2 60s"},
			{`{"entries":[{"key":"free"}]},{"entries":[{"key":"nothing"}]},{}`, "OK: OK 4294967295, OK 0, OK 0"},
			{`{"entries":[{"key":"tried"}]},{"entries":[{"key":"tried"}]}`, "OK: OK 0/1 3600s, OK 0/1 3600s"},
			{`{"entries":[{"key":"huge"}],"limit":{"requestsPerUnit":4294967295,"unit":"YEAR"},"hitsAddend":"18446744073709551615"}`, "OVER_LIMIT: OVER_LIMIT 0/4294967295 30931200s"},
			{`{"entries":[{"key":"user","value":"bob"}],"limit":{"requestsPerUnit":9,"unit":"MINUTE"}}`, "OK: OK 7/9 60s"},
			{`{"entries":[{"key":"user","value":"bob"}],"limit":{"requestsPerUnit":9,"unit":"HOUR"}}`, "OK: OK 8/9 3600s"},
		} {
			if got := k.ask(t, `{"domain":"d","descriptors":[`+test.descriptors+`]}`); got != test.want {
				t.Errorf("%s:\ngot  %s\nwant %s", test.descriptors, got, test.want)
			}
		}
	})
}

// Rules that another one replaces do not count; those in quota mode deny only together.
func TestReplacesAndQuotas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "", `
domain: d
descriptors:
  - {key: all, rate_limit: {name: all, unit: hour, requests_per_unit: 5}}
  - {key: vip, rate_limit: {unlimited: true, replaces: [{name: all}]}}
  - {key: q0, quota_mode: true, rate_limit: {name: q0, unit: hour, requests_per_unit: 0}}
  - {key: more, rate_limit: {unlimited: true, replaces: [{name: q0}]}}
  - {key: q1, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: q2, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 2}}
`)
		for _, test := range []struct{ keys, want string }{
			{"all vip", "OK: OK 0, OK 4294967295"},
			{"q0", "OVER_LIMIT: OVER_LIMIT 0/0 3600s"},
			{"q0 more", "OK: OK 0, OK 4294967295"},
			{"all", "OK: OK 4/5 3600s"},
			{"q1 q2", "OK: OK 0/1 3600s, OK 1/2 3600s"},
			{"q1 q2", "OK: OVER_LIMIT 0/1 3600s, OK 0/2 3600s"},
			{"q1 q2 all", "OVER_LIMIT: OVER_LIMIT 0/1 3600s, OVER_LIMIT 0/2 3600s, OK 3/5 3600s"},
		} {
			q := &pb.RateLimitRequest{Domain: "d"}
			for key := range strings.FieldsSeq(test.keys) {
				q.Descriptors = append(q.Descriptors, descriptor(key))
			}
			r, err := k.ShouldRateLimit(t.Context(), q)
			if err != nil || short(r) != test.want {
				t.Errorf("%s: %v, %v: want %s", test.keys, short(r), err, test.want)
			}
		}
	})
}

// Headers tell of the limit that is nearest, or that denies; metadata of the request and of the rules that it passed.
func TestHeadersAndMetadata(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "serve: {envoy: {files: [DIR], headers: true, metadata: true, shadow: true}}", `
domain: d
descriptors:
  - {key: a, metadata: {owner: x, team: {name: red, 1: [2, true]}}, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: b, metadata: {owner: y, team: {floor: 3}}, rate_limit: {unit: minute, requests_per_unit: 1}}
`)
		const both = `{"domain":"d","hitsAddend":1,"descriptors":[{"entries":[{"key":"a"}]},{"entries":[{"key":"b"}],"hitsAddend":"1"}]}`
		for i, want := range []string{
			`1 0 60; descriptors:[map[entries:[a=]] map[entries:[b=] hitsAddend:1]] domain:d hitsAddend:1 metadata:map[owner:x team:map[1:[2 true] floor:3 name:red]]`,
			`1 0 60; descriptors:[map[entries:[a=]] map[entries:[b=] hitsAddend:1]] domain:d hitsAddend:1 metadata:map[owner:x team:map[1:[2 true] name:red]]`,
		} {
			r, err := k.ShouldRateLimit(t.Context(), request(t, both))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for j, name := range []string{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"} {
				if h := r.ResponseHeadersToAdd[j]; h.Key == name {
					got = append(got, h.Value)
				}
			}
			if text := strings.Join(got, " ") + "; " + strings.TrimSuffix(strings.TrimPrefix(fmt.Sprint(r.DynamicMetadata.AsMap()), "map["), "]"); text != want || r.OverallCode != pb.RateLimitResponse_OK {
				t.Errorf("%d: %v\ngot  %s\nwant %s", i, r.OverallCode, text, want)
			}
		}
		if k.meter.seen["global_shadow_mode"] != 1 {
			t.Errorf("measured: %v", k.meter.seen)
		}
	})
}

// A request with a mistake is refused, and charges nothing.
func TestRequestsRefused(t *testing.T) {
	t.Parallel()
	k := start(t, "", users)
	for text, want := range map[string]string{
		`{}`:             "no domain",
		`{"domain":"d"}`: "no descriptors",
		`{"domain":"d","descriptors":[` + strings.Repeat("{},", 64) + `{}]}`:                                                               "65 descriptors: want at most 64",
		`{"domain":"d","descriptors":[{"entries":[{"key":"user"}]},{"entries":[{"key":"user"}],"limit":{"requestsPerUnit":1}}]}`:           "unit 0: want one from SECOND to YEAR",
		`{"domain":"d","descriptors":[{"entries":[{"key":"user"}]},{"entries":[{"key":"user"}],"limit":{"requestsPerUnit":1,"unit":99}}]}`: "unit 99: want one from SECOND to YEAR",
	} {
		_, err := k.ShouldRateLimit(t.Context(), request(t, text))
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v: want %q", text, err, want)
		}
	}
	if got := k.hit(t, "user="); !strings.HasPrefix(got, "OK: OK 1/2") {
		t.Errorf("a refused request has charged: %s", got)
	}
	if k.meter.seen["should_rate_limit_error service_error"] != 5 {
		t.Errorf("measured: %v", k.meter.seen)
	}
}

// away is a store that answers nothing about limits.
type away struct{ driver.Backend }

func init() {
	driver.Register("away", func(context.Context, *url.URL) (driver.Backend, error) {
		return away{memory.NewStore().Open()}, nil
	})
}

var errAway = fmt.Errorf("%w: it is away", driver.ErrUnavailable)

func (away) TakeOne(context.Context, string, driver.Limit, driver.Ask) (driver.TakenOne, error) {
	return driver.TakenOne{}, errAway
}

func (away) Take(context.Context, string, driver.Limit, []driver.Ask) (driver.Taken, error) {
	return driver.Taken{}, errAway
}

func (away) Charge(context.Context, string, driver.Limit, int) (driver.Charged, error) {
	return driver.Charged{}, errAway
}

func (away) TakeAll(context.Context, []driver.Demand) ([]driver.Taken, error) { return nil, errAway }

// Without the store a rule lets in or not, as it says; one that says nothing, as the client does.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	const file = `
domain: d
descriptors:
  - {key: open, rate_limit: {unit: hour, requests_per_unit: 5, failure_policy: open}}
  - {key: closed, rate_limit: {unit: hour, requests_per_unit: 5, failure_policy: closed}}
  - {key: silent, rate_limit: {unit: hour, requests_per_unit: 5}}
`
	for _, counting := range []string{"envoy", "exact"} {
		for _, policy := range []string{"open", "closed"} {
			k := start(t, "url: away://\nfailure_policy: "+policy, file+"counting: "+counting+"\n")
			for key, letsIn := range map[string]bool{"open": true, "closed": false, "silent": policy == "open"} {
				r, err := k.ShouldRateLimit(t.Context(), &pb.RateLimitRequest{Domain: "d", Descriptors: []*common.RateLimitDescriptor{descriptor(key)}})
				switch {
				case letsIn && (err != nil || !strings.HasPrefix(short(r), "OK: OK 5/5")):
					t.Errorf("%s, %s, %s: %v, %v", counting, policy, key, r, err)
				case !letsIn && status.Code(err) != codes.Unavailable:
					t.Errorf("%s, %s, %s: %v, %v: want Unavailable", counting, policy, key, r, err)
				}
			}
			_, _ = k.ShouldRateLimit(t.Context(), &pb.RateLimitRequest{Domain: "d", Descriptors: []*common.RateLimitDescriptor{
				descriptor("open"), descriptor("silent"), descriptor("closed"), descriptor("open=other"),
			}})
			if n := k.meter.seen["should_rate_limit_error store_error"]; n != 4 { // one of each request, also of what was let in
				t.Errorf("%s, %s: %v: want 4 errors of the store", counting, policy, k.meter.seen)
			}
		}
	}
}

// Overrides in the store would scale the counter and not the limit.
func TestOverridesGoWithExact(t *testing.T) {
	t.Parallel()
	_, err := envoy.New(open(t, "overrides: true", users), envoy.Options{})
	if err == nil || !strings.Contains(err.Error(), `domain "d": overrides: true goes with counting: exact alone`) {
		t.Errorf("envoy: %v", err)
	}
	start(t, "overrides: true", users+"counting: exact\n")
}
