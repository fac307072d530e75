package etcd

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
	"github.com/coordgo/coord/internal/testserver"
)

func benchClient(b *testing.B) (*clientv3.Client, *coord.Client) {
	srv := testserver.Etcd(b, testserver.Durable())
	client := raw(b, srv.Addr)
	backend, err := New(client)
	if err != nil {
		b.Fatal(err)
	}
	c, err := coord.New(backend)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return client, c
}

// A lock and an unlock, against two bare transactions on a lease that is there.
func BenchmarkLockUnlock(b *testing.B) {
	client, c := benchClient(b)
	ctx := context.Background()
	lease := must[*clientv3.LeaseGrantResponse](b)(client.Grant(ctx, 600))
	bare := func() error {
		absent := clientv3.Compare(clientv3.CreateRevision("bare"), "=", 0)
		if _, err := client.Txn(ctx).If(absent).Then(clientv3.OpPut("bare", "id", clientv3.WithLease(lease.ID))).Commit(); err != nil {
			return err
		}
		own := clientv3.Compare(clientv3.Value("bare"), "=", "id")
		_, err := client.Txn(ctx).If(own).Then(clientv3.OpDelete("bare")).Commit()
		return err
	}
	ours := func() error {
		l, err := c.Lock(ctx, "bench")
		if err != nil {
			return err
		}
		return l.Unlock(ctx)
	}
	testserver.Ratio(b, bare, ours)
}

// A decision, against one bare transaction.
func BenchmarkAllow(b *testing.B) {
	client, c := benchClient(b)
	ctx := context.Background()
	for name, limit := range map[string]coord.Limit{
		"sliding-window": coord.PerSecond(1_000_000_000),
		"token-bucket":   {Rate: 1_000_000, Per: time.Second, Burst: 1_000_000},
		"fixed-window":   {Rate: 1_000_000_000, Per: time.Second, Algorithm: coord.FixedWindow},
	} {
		b.Run(name, func(b *testing.B) {
			lease := must[*clientv3.LeaseGrantResponse](b)(client.Grant(ctx, 600))
			revision := must[*clientv3.PutResponse](b)(client.Put(ctx, "bare", "0", clientv3.WithLease(lease.ID))).Header.Revision
			bare := func() error {
				resp, err := client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision("bare"), "=", revision)).
					Then(clientv3.OpPut("bare", "0123456789012345678901234567890", clientv3.WithLease(lease.ID))).
					Else(clientv3.OpGet("bare")).Commit()
				if err == nil {
					revision = resp.Header.Revision
				}
				return err
			}
			testserver.Ratio(b, bare, func() error {
				_, err := c.Allow(ctx, "bench", limit)
				return err
			})
		})
	}
}

// From the holder's Unlock until the waiter of another client has the grant, against
// the time until a bare watch has seen a bare deletion.
func BenchmarkHandOver(b *testing.B) {
	srv := testserver.Etcd(b, testserver.Durable())
	holder, waiter, client, other := connect(b, srv.Addr), connect(b, srv.Addr), raw(b, srv.Addr), raw(b, srv.Addr)
	ctx := context.Background()
	var bares, ours []float64
	for b.Loop() {
		must[*clientv3.PutResponse](b)(client.Put(ctx, "bare", "x"))
		wctx, cancel := context.WithCancel(ctx)
		events := other.Watch(wctx, "bare")
		start := time.Now()
		must[*clientv3.DeleteResponse](b)(client.Delete(ctx, "bare"))
		<-events
		bares = append(bares, float64(time.Since(start).Nanoseconds()))
		cancel()

		r, w := request("holder", 20*time.Second), request("waiter", 20*time.Second)
		must[driver.Grant](b)(holder.TryLock(ctx, "k", r))
		done := startWaiter(b, ctx, waiter, "k", w, 2)
		time.Sleep(2 * time.Millisecond) // it is asleep
		start = time.Now()
		if err := holder.Unlock(ctx, "k", r.ID); err != nil {
			b.Fatal(err)
		}
		got := <-done
		if got.err != nil {
			b.Fatal(got.err)
		}
		ours = append(ours, float64(got.at.Sub(start).Nanoseconds()))
		if err := waiter.Unlock(ctx, "k", w.ID); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(testserver.Median(bares), "ns/bare-p50")
	b.ReportMetric(testserver.Median(ours), "ns/coord-p50")
	b.ReportMetric(ours[len(ours)*99/100], "ns/coord-p99")
	b.ReportMetric(testserver.Median(ours)/testserver.Median(bares), "×bare")
}

// Twelve clients on one key, against twelve that read, decide and write, and begin again at
// once when they were defeated.
func BenchmarkTwelveWriters(b *testing.B) {
	const writers, span = 12, time.Second
	srv := testserver.Etcd(b, testserver.Durable())
	limit := must[driver.Limit](b)(driver.Limit{Rate: 1_000_000_000, Per: time.Minute}.Normal())
	run := func(decide func(i int) error) float64 {
		var n atomic.Int64
		var wg sync.WaitGroup
		start := time.Now()
		for i := range writers {
			wg.Go(func() {
				for time.Since(start) < span {
					if err := decide(i); err != nil {
						b.Error(err)
						return
					}
					n.Add(1)
				}
			})
		}
		wg.Wait()
		return float64(n.Load()) / time.Since(start).Seconds()
	}
	var clients []*clientv3.Client
	var backends []*backend
	for range writers {
		clients = append(clients, raw(b, srv.Addr))
		backends = append(backends, connect(b, srv.Addr))
	}
	ctx := context.Background()
	var bares, ours, ratios []float64
	for range 3 { // rounds of two seconds
		key := fmt.Sprint("k", len(bares))
		bare := run(func(i int) error { return bareDecision(ctx, clients[i], key, limit) })
		our := run(func(i int) error {
			_, err := backends[i].TakeOne(ctx, key, limit, driver.Ask{Min: 1, N: 1})
			return err
		})
		bares, ours, ratios = append(bares, bare), append(ours, our), append(ratios, our/bare)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(testserver.Median(bares), "bare/s")
	b.ReportMetric(testserver.Median(ours), "coord/s")
	b.ReportMetric(testserver.Median(ratios), "×bare")
}

// bareDecision is an uncached read-modify-write.
func bareDecision(ctx context.Context, client *clientv3.Client, key string, limit driver.Limit) error {
	for {
		got, err := client.Get(ctx, key)
		if err != nil {
			return err
		}
		var s limits.State
		revision := int64(0)
		if len(got.Kvs) > 0 {
			revision = got.Kvs[0].ModRevision
			if err := s.UnmarshalBinary(got.Kvs[0].Value); err != nil {
				return err
			}
		}
		s.Take(limit, time.Now().UnixMicro(), driver.Ask{Min: 1, N: 1})
		value, err := s.AppendBinary(nil)
		if err != nil {
			return err
		}
		resp, err := client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).
			Then(clientv3.OpPut(key, string(value))).Commit()
		if err != nil || resp.Succeeded {
			return err
		}
	}
}
