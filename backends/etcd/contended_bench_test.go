package etcd

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// Sixteen goroutines of one client and one key, against one goroutine that puts and deletes an
// entry in a loop; and what each lock costs the store.
func BenchmarkContended(b *testing.B) {
	for name, section := range map[string]time.Duration{"section=0": 0, "section=1ms": time.Millisecond} {
		b.Run(name, func(b *testing.B) {
			srv := testserver.Etcd(b)
			client := raw(b, srv.Addr)
			cfg, count := counting(clientConfig(srv.Addr))
			c := must[*coord.Client](b)(coord.New(must[driver.Backend](b)(New(rawWith(b, cfg)))))
			defer c.Close()
			ctx := context.Background()
			lease := must[*clientv3.LeaseGrantResponse](b)(client.Grant(ctx, 600))
			locks := 0
			count.take()
			testserver.CompareContended(b, 16, 250*time.Millisecond, func() error {
				absent := clientv3.Compare(clientv3.CreateRevision("bare"), "=", 0)
				if _, err := client.Txn(ctx).If(absent).Then(clientv3.OpPut("bare", "id", clientv3.WithLease(lease.ID))).Commit(); err != nil {
					return err
				}
				time.Sleep(section)
				own := clientv3.Compare(clientv3.Value("bare"), "=", "id")
				_, err := client.Txn(ctx).If(own).Then(clientv3.OpDelete("bare")).Commit()
				return err
			}, func() error {
				l, err := c.Lock(ctx, "k")
				if err != nil {
					return err
				}
				locks++ // the lock guards it
				time.Sleep(section)
				return l.Unlock(ctx)
			})
			requests := 0
			for _, n := range count.take() {
				requests += n
			}
			b.ReportMetric(float64(requests)/float64(locks), "requests/lock")
		})
	}
}

// What a client waits for a key that sixteen goroutines of another client hand on among themselves,
// each with a millisecond of work: which each grant of the store allows them for 50 ms.
func BenchmarkWaitAmongHandOvers(b *testing.B) {
	for name, opts := range map[string][]coord.LockOption{"fair": {coord.Fair()}, "plain": nil} {
		b.Run(name, func(b *testing.B) {
			srv := testserver.Etcd(b)
			open := func() *coord.Client {
				c := must[*coord.Client](b)(coord.New(connect(b, srv.Addr)))
				b.Cleanup(func() { c.Close() })
				return c
			}
			busy, c := open(), open()
			testserver.WaitAmid(b, 16, func(ctx context.Context) {
				_ = coord.Do(ctx, busy, "k", func(context.Context) error { time.Sleep(time.Millisecond); return nil })
			}, func(ctx context.Context) (func(context.Context) error, error) {
				l, err := c.Lock(ctx, "k", opts...)
				if err != nil {
					return nil, err
				}
				return l.Unlock, nil
			})
		})
	}
}
