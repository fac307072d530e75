package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
)

// BenchmarkServer is what one run of a script costs the server, by its own account, and that of
// bare commands, in turn. Pipelines of 100 keep the network out of it.
func BenchmarkServer(b *testing.B) {
	_, be := open(b)
	ctx := context.Background()
	const each = 100
	cadSHA := be.client.ScriptLoad(ctx, `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`).Val()
	incrSHA := be.client.ScriptLoad(ctx, `return redis.call("INCR", KEYS[1])`).Val()
	for _, s := range append(be.limits.all(), acquireScript, unlockScript, renewScript, confirmScript) {
		if err := be.client.ScriptLoad(ctx, s.source).Err(); err != nil {
			b.Fatal(err)
		}
	}
	r := request("bench", 30*time.Second)
	ttl := be.ttl(r.TTL)
	limit := func(text string) func(key string) []any {
		l := limitOf(b, text)
		return func(key string) []any {
			c, _ := be.newTake(ctx, key, l, driver.Ask{Min: 1, N: 1})
			return c.Args()
		}
	}
	acquire := func(key string) []any {
		lock, fence := lockKeys(key)
		return acquireScript.command(ctx, lock, fence, r.ID, ttl.lease).Args()
	}
	serial := 0
	for _, c := range []struct {
		name  string
		warm  bool
		clean bool
		args  func(key string) []any
	}{
		{"SET", true, true, func(key string) []any { return []any{"set", key, r.ID, "nx", "px", 30000} }},
		{"compare-and-delete", true, false, func(key string) []any { return []any{"evalsha", cadSHA, 1, key, r.ID} }},
		{"INCR", true, false, func(key string) []any { return []any{"evalsha", incrSHA, 1, key, 1} }},
		{"acquire", true, true, acquire},
		{"unlock", true, false, func(key string) []any { return unlockScript.command(ctx, lockKey(key), r.ID).Args() }},
		{"renew", true, false, func(key string) []any {
			lock, fence := lockKeys(key)
			return renewScript.command(ctx, lock, fence, r.ID, ttl.lease).Args()
		}},
		{"confirm", true, false, func(key string) []any {
			lock, fence := lockKeys(key)
			return confirmScript.command(ctx, lock, fence, r.ID, ttl.lease).Args()
		}},
		{"unlock with a waiter", true, false, func(key string) []any { return unlockScript.command(ctx, lockKey(key), r.ID).Args() }},
		{"sliding warm", true, false, limit("1000000000/1s")},
		{"sliding cold", false, false, limit("1000000000/1s")},
		{"bucket warm", true, false, limit("1000000/1s burst=1000000")},
		{"bucket cold", false, false, limit("1000000/1s burst=1000000")},
		{"fixed warm", true, false, limit("1000000000/1s fixed-window")},
		{"fixed cold", false, false, limit("1000000000/1s fixed-window")},
	} {
		b.Run(c.name, func(b *testing.B) {
			stat := "evalsha"
			if c.name == "SET" {
				stat = "set"
			}
			var us float64
			n := 0
			for b.Loop() {
				pipe, before, after := be.client.Pipeline(), be.client.Pipeline(), be.client.Pipeline()
				for i := range each {
					key := "warm" + strconv.Itoa(i)
					if !c.warm {
						serial++
						key = fmt.Sprint("cold", serial)
					}
					switch {
					case c.clean:
						before.Del(ctx, key, lockKey(key))
					case c.name == "compare-and-delete":
						before.Set(ctx, key, r.ID, 0)
					case c.name == "confirm", c.name == "unlock with a waiter":
						lock, fence := lockKeys(key)
						holder := offered + r.ID
						if c.name != "confirm" {
							holder = held + r.ID
						}
						before.Set(ctx, lock, holder, time.Minute)
						before.Set(ctx, fence, "1 -", time.Hour)
						before.ZAdd(ctx, lock+":queue", redis.Z{Score: 1, Member: r.ID})
						before.HSet(ctx, lock+":waiters", r.ID, "1 50 1 coord:wake:bench")
						after.Del(ctx, lock, lock+":queue", lock+":waiters")
					case c.name == "unlock", c.name == "renew":
						_ = before.Process(ctx, redis.NewCmd(ctx, acquire(key)...))
					}
					_ = pipe.Process(ctx, redis.NewCmd(ctx, c.args(key)...))
				}
				_, _ = before.Exec(ctx)
				reset := be.client.ConfigResetStat(ctx).Err()
				_, err := pipe.Exec(ctx)
				if err := errors.Join(reset, err); err != nil {
					b.Fatal(err)
				}
				us += usecPerCall(b, be, stat)
				_, _ = after.Exec(ctx)
				n++
			}
			b.ReportMetric(us/float64(n), "server-µs")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func usecPerCall(b *testing.B, be *backend, command string) float64 {
	for line := range strings.Lines(be.client.Info(b.Context(), "commandstats").Val()) {
		if _, rest, ok := strings.Cut(line, "cmdstat_"+command+":"); ok {
			_, rest, _ = strings.Cut(rest, "usec_per_call=")
			rest, _, _ = strings.Cut(rest, ",")
			f, err := strconv.ParseFloat(rest, 64)
			if err != nil {
				b.Fatal(err)
			}
			return f
		}
	}
	b.Fatal("no statistics of " + command)
	return 0
}
