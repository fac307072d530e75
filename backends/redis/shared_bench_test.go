package redis

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// BenchmarkShared is a hold that is taken and released alone, beside the two bare commands that a lock comes down to.
func BenchmarkShared(b *testing.B) {
	_, be := open(b)
	ctx := context.Background()
	cad := redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)
	if err := cad.Load(ctx, be.client).Err(); err != nil {
		b.Fatal(err)
	}
	bare := func() error {
		if err := be.client.SetArgs(ctx, "bare", "id", redis.SetArgs{Mode: "NX", TTL: 30 * time.Second}).Err(); err != nil {
			return err
		}
		return cad.EvalSha(ctx, be.client, []string{"bare"}, "id").Err()
	}
	for name, share := range map[string]driver.Share{"read": reader, "write": writer, "permit": permits(1, 16)} {
		l, r := be.Shared(), shares("a", share)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			testserver.Ratio(b, bare, func() error {
				if _, err := l.TryLock(ctx, "k", r); err != nil {
					return err
				}
				return l.Unlock(ctx, "k", r.ID)
			})
		})
	}
}

// BenchmarkSharedWriter is the wait of one writer beside 200 goroutines of two clients that read, each for a millisecond,
// and how many scripts the server runs meanwhile.
func BenchmarkSharedWriter(b *testing.B) {
	srv, _ := open(b)
	ctx, cancel := context.WithCancel(context.Background())
	var clients [3]*coord.Client
	for i := range clients {
		clients[i] = coordOver(b, connect(b, srv.Addr))
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var reads atomic.Int64
	for i := range 200 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if l, err := clients[i%2].ReadWrite().Read().Lock(ctx, "k"); err == nil {
					time.Sleep(time.Millisecond)
					_ = l.Unlock(context.Background())
					reads.Add(1)
				}
			}
		})
	}
	start, read, scripts := time.Now(), reads.Load(), srv.Commands()["evalsha"]
	for b.Loop() {
		l, err := clients[2].ReadWrite().Write().Lock(ctx, "k")
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Unlock(ctx); err != nil {
			b.Fatal(err)
		}
	}
	read = reads.Load() - read
	b.ReportMetric(float64(read)/time.Since(start).Seconds(), "reads/s")
	b.ReportMetric(float64(srv.Commands()["evalsha"]-scripts)/float64(read+int64(b.N)), "scripts/hold")
}

// BenchmarkSharedServer is what a step costs the server, by its own account, by how many others hold the key. Pipelines
// of 20 keep the network out of it.
func BenchmarkSharedServer(b *testing.B) {
	_, be := open(b)
	ctx, l, s := context.Background(), be.Shared(), &be.shared
	for _, script := range s.all() {
		if err := be.client.ScriptLoad(ctx, script.source).Err(); err != nil {
			b.Fatal(err)
		}
	}
	const each = 20
	for _, n := range []int{0, 1, 15, 255, 1000, driver.MaxHolders} {
		key := fmt.Sprint("k", n)
		for range n {
			r := shares("host-0123456789", permits(1, 4096))
			r.TTL = time.Hour
			if _, err := l.TryLock(ctx, key, r); err != nil {
				b.Fatal(err)
			}
		}
		requests := make([]driver.Request, each)
		for i := range requests {
			requests[i] = shares("host-0123456789", permits(1, 4096))
		}
		for _, step := range []string{"take", "renew", "unlock", "refuse"} {
			if (n == driver.MaxHolders || n == 0) && (step == "refuse") != (n > 0) {
				continue // nobody fits beside so many, and nobody is refused alone
			}
			b.Run(fmt.Sprintf("%s beside %d", step, n), func(b *testing.B) {
				run := func(what string) {
					pipe := be.client.Pipeline()
					for i, r := range requests {
						one := key
						if n == 0 {
							one = fmt.Sprint("alone", i)
						}
						c := s.unlock.command(ctx, sharedKey(one), r.ID)
						switch what {
						case "take":
							c = s.take.command(ctx, sharedKey(one), r.ID, takeNumbers(r))
						case "renew":
							c = s.renew.command(ctx, sharedKey(one), r.ID, renewNumbers(r))
						case "refuse":
							c = s.take.command(ctx, sharedKey(one), r.ID, takeNumbers(shares("host-0123456789", writer)))
						}
						_ = pipe.Process(ctx, c)
					}
					if _, err := pipe.Exec(ctx); err != nil {
						b.Fatal(err)
					}
				}
				var us []float64
				for b.Loop() {
					if step == "renew" || step == "unlock" {
						run("take")
					}
					if err := be.client.ConfigResetStat(ctx).Err(); err != nil {
						b.Fatal(err)
					}
					run(step)
					us = append(us, usecPerCall(b, be, "evalsha"))
					if step == "take" || step == "renew" {
						run("unlock")
					}
				}
				b.ReportMetric(slices.Min(us), "server-µs") // the least: others may have had the processor
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
