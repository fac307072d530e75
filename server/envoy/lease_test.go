package envoy_test

import (
	"context"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/server/envoy"
)

// counted is a store that counts the requests for permits, and that is elsewhere, as it says.
type counted struct{ driver.Backend }

func (c counted) Info() driver.Info {
	info := c.Backend.Info()
	info.Claims = append(info.Claims.Without(driver.ScopeProcess), driver.ScopeHosts)
	return info
}

var takes atomic.Int64

func init() {
	driver.Register("counted", func(context.Context, *url.URL) (driver.Backend, error) {
		return counted{memory.NewStore().Open()}, nil
	})
}

func (c counted) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	takes.Add(1)
	return c.Backend.TakeOne(ctx, key, l, a)
}

func (c counted) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	takes.Add(1)
	return c.Backend.Take(ctx, key, l, asks)
}

const leasedRule = `
domain: d
counting: exact
descriptors:
  - {key: click, rate_limit: {unit: second, requests_per_unit: 100000, algorithm: token-bucket, LEASE}}
`

// Permits of a rule are taken in advance, in many fewer calls, as long as the file says so.
func TestLease(t *testing.T) { // the only test that uses its store
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir+"/d.yaml", strings.Replace(leasedRule, "LEASE", "lease: {max: 100, for: 1s, lessees: 2}", 1))
		client := open(t, "url: counted://\nserve: {envoy: {files: ["+dir+"]}}")
		s, err := envoy.New(client, envoy.Options{})
		if err != nil {
			t.Fatal(err)
		}
		k := &kit{Service: s, client: client}
		calls := func() int64 {
			before := takes.Load()
			for range 1000 {
				if got := k.hit(t, "click"); !strings.HasPrefix(got, "OK: OK") {
					t.Fatal(got)
				}
				time.Sleep(time.Millisecond)
			}
			return takes.Load() - before
		}
		if n := calls(); n > 200 {
			t.Errorf("%d calls for 1000 permits that are taken in advance", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		reports := make(chan error, 1)
		done := make(chan struct{})
		go func() { defer close(done); s.Watch(ctx, period, func(err error) { reports <- err }) }()
		write(t, dir+"/d.yaml", strings.Replace(leasedRule, "LEASE", "lease: false", 1))
		if err := <-reports; err != nil {
			t.Fatal(err)
		}
		cancel()
		<-done
		if n := calls(); n != 1000 {
			t.Errorf("%d calls for 1000 permits, none of which is taken in advance", n)
		}
	})
}

// One limit has one lease, wherever it stands.
func TestLeasesRefused(t *testing.T) {
	t.Parallel()
	const file = `
domain: d
counting: exact
descriptors:
  - {key: a, rate_limit: {unit: second, requests_per_unit: 5, lease: LEASE}}
  - {key: b, rate_limit: {unit: second, requests_per_unit: 5}}
`
	const named = "limits: {x: {rate: 5, per: 1s, algorithm: fixed-window}}"
	as := func(lease string) string { return strings.Replace(file, "LEASE", lease, 1) }
	for _, test := range []struct{ more, text, want string }{
		{"", as("true"), "d.b has the limit of d.a, with another lease"},
		{"", as("false"), ""},
		{"", strings.Replace(as("{max: 5}"), "5}}\n", "5, lease: {max: 6}}}\n", 1), "d.b has the limit of d.a"},
		{named, as("true"), "d.a has the limit of limits.x, with another lease"},
		{named, as("false"), ""},
		{"", as("5"), ":5: lease: want true, false, or a mapping of max, for and lessees"},
		{"", as("{for: 1h}"), ":5: for: want a duration from 1ms to 10s"},
		{"", as("{max: 0}"), ":5: max: want a whole number from 1 to"},
		{"", strings.Replace(as("true"), "counting: exact", "counting: envoy", 1), "a key of counting: exact"},
	} {
		_, err := envoy.New(open(t, test.more, test.text), envoy.Options{})
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s%s: %v: want %q", test.more, test.text, err, test.want)
		}
	}
}
