package all_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// distant is a store in memory that is a millisecond away.
type distant struct{ driver.Backend }

func newDistant() *distant {
	return &distant{memory.New()}
}

func (d *distant) Info() driver.Info {
	info := d.Backend.Info()
	info.Claims = slices.DeleteFunc(info.Claims, func(c driver.Claim) bool { return c == driver.ScopeProcess })
	info.Claims = append(info.Claims, driver.ScopeHosts)
	return info
}

func (d *distant) TakeAll(ctx context.Context, demands []driver.Demand) ([]driver.Taken, error) {
	time.Sleep(time.Millisecond)
	return d.Backend.TakeAll(ctx, demands)
}

// Many goroutines make four calls of AllowAll each: every call takes from one of twenty
// users' limits and from one limit of all, or from a user's own limit and one of a hundred
// tenants'. Of the denied, every tenth goroutine takes from a limit that is used up as well,
// another one in each call.
func BenchmarkAllowAllMany(b *testing.B) {
	opener := func(scheme string, start func(testing.TB, ...testserver.Option) *testserver.Server) func(*testing.B) driver.Backend {
		return func(b *testing.B) driver.Backend {
			backend, _, err := driver.Open(b.Context(), scheme+"://"+start(b).Addr)
			if err != nil {
				b.Fatal(err)
			}
			return backend
		}
	}
	for _, store := range []struct {
		name string
		open func(*testing.B) driver.Backend
	}{
		{"1ms", func(*testing.B) driver.Backend { return newDistant() }},
		{"redis", opener("redis", testserver.Redis)},
		{"etcd", opener("etcd", testserver.Etcd)},
		{"zookeeper", opener("zookeeper", testserver.ZooKeeper)},
	} {
		b.Run(store.name, func(b *testing.B) {
			client, err := coord.New(store.open(b))
			if err != nil {
				b.Fatal(err)
			}
			defer client.Close()
			for _, n := range []int{50, 500, 5000} {
				b.Run(fmt.Sprintf("goroutines=%d/one-for-all", n), func(b *testing.B) { allowAllMany(b, client, n, 20, 1, 0) })
				b.Run(fmt.Sprintf("goroutines=%d/tenth-denied", n), func(b *testing.B) { allowAllMany(b, client, n, 20, 1, 10) })
				b.Run(fmt.Sprintf("goroutines=%d/tenants", n), func(b *testing.B) { allowAllMany(b, client, n, n, 100, 0) })
			}
		})
	}
}

func allowAllMany(b *testing.B, client *coord.Client, n, users, tenants, denied int) {
	const calls = 4
	ctx, wide := context.Background(), coord.PerHour(1_000_000_000)
	var took []time.Duration
	for round := range b.N {
		b.StopTimer()
		tight := func(i, j int) coord.Demand {
			return coord.Demand{Key: fmt.Sprintf("%s/%p/%d/%d/%d/%d", b.Name(), b, b.N, round, i, j), Limit: coord.PerHour(1), N: 1}
		}
		isDenied := func(i int) bool { return denied > 0 && i%(100/denied) == 0 }
		var wg sync.WaitGroup
		for i := 0; i < n; i++ {
			if isDenied(i) {
				wg.Go(func() {
					for j := range calls {
						d := tight(i, j)
						if r, err := client.Allow(ctx, d.Key, d.Limit); err != nil || !r.Allowed {
							b.Errorf("%+v, %v", r, err)
						}
					}
				})
			}
		}
		wg.Wait()
		times := make([]time.Duration, n*calls)
		b.StartTimer()
		for i := range n {
			wg.Go(func() {
				for j := range calls {
					demands := []coord.Demand{{Key: fmt.Sprint("user", i%users), Limit: wide, N: 1}, {Key: fmt.Sprint("tenant", i%tenants), Limit: wide, N: 1}}
					if isDenied(i) {
						demands = append(demands, tight(i, j))
					}
					start := time.Now()
					r, err := client.AllowAll(ctx, demands...)
					times[i*calls+j] = time.Since(start)
					if err != nil || r[0].Allowed == isDenied(i) {
						b.Errorf("%+v, %v", r, err)
					}
				}
			})
		}
		wg.Wait()
		took = append(took, times...)
	}
	slices.Sort(took)
	b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "calls/s")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}
