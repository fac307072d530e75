package stores

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
	"github.com/coordgo/coord/server/envoy"
)

// envoyLimits are those of a year, so that no window ends during the test. The one of tenant is the tighter.
const envoyLimits = `
domain: edge
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 50}}
  - {key: tenant, rate_limit: {unit: year, requests_per_unit: 30}}
`

// On every store two services that count by Envoy's rules let in as many requests as the limit says, and not one more;
// so do two that count exactly, and of those a request that is denied takes nothing.
func TestEnvoyOnEveryStore(t *testing.T) {
	for name, url := range map[string]func(t *testing.T) string{
		"redis":     func(t *testing.T) string { return sharedRedis(t) },
		"etcd":      func(t *testing.T) string { return "etcd://" + testserver.Etcd(t).Addr },
		"zookeeper": func(t *testing.T) string { return "zookeeper://" + testserver.ZooKeeper(t).Addr },
		"memcached": func(t *testing.T) string { return "memcached://" + testserver.Memcached(t).Addr },
		"postgres":  func(t *testing.T) string { return testserver.PostgresURL("postgres", testserver.Postgres(t).Addr) },
		"file":      func(t *testing.T) string { return "file://" + filepath.ToSlash(t.TempDir()) },
	} {
		t.Run(name, func(t *testing.T) {
			url := url(t)
			t.Run("envoy", func(t *testing.T) {
				a, b := openEnvoy(t, url, envoyLimits), openEnvoy(t, url, envoyLimits)
				if n := letIn(t, []*envoy.Service{a, b}, "user"); n != 50 {
					t.Errorf("%d requests of 80 were let in: want 50", n)
				}
				if n := letIn(t, []*envoy.Service{a, b}, "user"); n != 0 {
					t.Errorf("%d more", n)
				}
			})
			t.Run("exact", func(t *testing.T) {
				s, multi := openExact(t, url)
				if !multi {
					t.Skip("unsupported: several limits in one step")
				}
				if n := letIn(t, s, "user", "tenant"); n != 30 {
					t.Errorf("%d requests of 80 were let in: want 30", n)
				}
				if n := letIn(t, s, "user"); n != 20 {
					t.Errorf("%d of one user: want the 20 that no denied request has taken", n)
				}
			})
		})
	}
}

func openEnvoy(t *testing.T, url, limits string) *envoy.Service {
	t.Helper()
	c, err := open(t, envoyConfig(t, url, "envoy", limits))
	if err != nil {
		t.Fatal(err)
	}
	return newEnvoy(t, c)
}

// openExact gives two services, and whether their store takes several limits in one step.
func openExact(t *testing.T, url string) (list []*envoy.Service, multi bool) {
	t.Helper()
	for range 2 {
		c, err := open(t, envoyConfig(t, url, "exact", envoyLimits+"counting: exact\n"))
		if err != nil {
			t.Fatal(err)
		}
		multi = c.Info().Claims.Has(driver.AtomicMulti)
		list = append(list, newEnvoy(t, c))
	}
	return list, multi
}

func newEnvoy(t *testing.T, c *config.Client) *envoy.Service {
	t.Helper()
	s, err := envoy.New(c, envoy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// envoyConfig is a file with a prefix of its own, for others use the store, too.
func envoyConfig(t *testing.T, url, prefix, limits string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "edge.yaml")
	if err := os.WriteFile(path, []byte(limits), 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("url: %q\nprefix: %s%d/\nserve: {envoy: {files: [%q]}}\n", url, prefix, os.Getpid(), path)
}

// letIn makes 80 requests at once, of services in turn, and counts those that are let in.
func letIn(t *testing.T, services []*envoy.Service, keys ...string) int {
	t.Helper()
	var all sync.WaitGroup
	var in atomic.Int64
	q := &ratelimitpb.RateLimitRequest{Domain: "edge"}
	for _, key := range keys {
		entry := &common.RateLimitDescriptor_Entry{Key: key, Value: "one"}
		q.Descriptors = append(q.Descriptors, &common.RateLimitDescriptor{Entries: []*common.RateLimitDescriptor_Entry{entry}})
	}
	for i := range 80 {
		all.Go(func() {
			r, err := services[i%len(services)].ShouldRateLimit(t.Context(), q)
			if err != nil {
				t.Error(err)
			}
			if r.GetOverallCode() == ratelimitpb.RateLimitResponse_OK {
				in.Add(1)
			}
		})
	}
	all.Wait()
	return int(in.Load())
}
