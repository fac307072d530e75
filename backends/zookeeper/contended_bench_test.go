package zookeeper

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/testserver"
)

// Sixteen goroutines of one client and one key, against one goroutine that creates and deletes a
// node in a loop; and what each lock costs the store.
func BenchmarkContended(b *testing.B) {
	for name, section := range map[string]time.Duration{"section=0": 0, "section=1ms": time.Millisecond} {
		b.Run(name, func(b *testing.B) {
			srv := testserver.ZooKeeper(b)
			bare := connect(b, urlWith(b, srv.Addr, calmSession))
			isFree(b, bare, "bare")
			dir := bare.lockDir("bare")
			p := newTap(b, srv.Addr)
			c := must[*coord.Client](b)(coord.New(connect(b, urlWith(b, p.addr(), calmSession))))
			defer c.Close()
			ctx := context.Background()
			locks := 0
			p.take()
			testserver.CompareContended(b, 16, 250*time.Millisecond, func() error {
				path, err := bare.conn.Create(dir+"/x-", nil, zk.FlagEphemeralSequential, bare.acl)
				if err != nil {
					return err
				}
				time.Sleep(section)
				return bare.conn.Delete(path, -1)
			}, func() error {
				l, err := c.Lock(ctx, "k")
				if err != nil {
					return err
				}
				locks++ // the lock guards it
				time.Sleep(section)
				return l.Unlock(ctx)
			})
			b.ReportMetric(float64(len(p.take()))/float64(locks), "requests/lock")
		})
	}
}

// What a client waits for a key that sixteen goroutines of another client hand on among themselves,
// each with a millisecond of work.
func BenchmarkWaitAmongHandOvers(b *testing.B) {
	for name, opts := range map[string][]coord.LockOption{"fair": {coord.Fair()}, "plain": nil} {
		b.Run(name, func(b *testing.B) {
			srv := testserver.ZooKeeper(b)
			open := func() *coord.Client {
				c := must[*coord.Client](b)(coord.New(connect(b, urlWith(b, srv.Addr, calmSession))))
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
