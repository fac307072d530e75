package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// countScript counts how often it was run with a key, and replies with its argument too.
var countScript = newScript(1, "return {redis.call('INCR', KEYS[1]), tonumber(ARGV[1])}")

// someCtx is one of the kinds that calls come under, which ends soon or never.
func someCtx() (context.Context, func()) {
	d := time.Duration(rand.N(30_000)) * time.Microsecond
	switch rand.N(4) {
	case 0:
		bound := driver.NewBound(context.Background(), d)
		return bound, bound.Stop
	case 1:
		return context.WithTimeout(context.Background(), d)
	case 2:
		ctx, cancel := context.WithCancel(context.Background())
		timer := time.AfterFunc(d, cancel)
		return ctx, func() { timer.Stop(); cancel() }
	default:
		return context.Background(), func() {}
	}
}

// TestPipelinerTellsTheOutcome: whatever becomes of server and network, a call that was answered was run once, one
// whose error is definite was not, and none is run twice, though the client would retry.
func TestPipelinerTellsTheOutcome(t *testing.T) {
	t.Parallel()
	srv := testserver.Redis(t, silently)
	p := proxyTo(t, srv)
	o := clientOptions(p.Addr())
	o.ReadTimeout, o.DialTimeout, o.MaxRetries = 250*time.Millisecond, 250*time.Millisecond, 3
	client := redis.NewClient(o)
	defer client.Close()
	made := must[driver.Backend](t)(New(client, WithLogger(slog.New(slog.DiscardHandler))))
	defer made.Close()
	b := made.(*backend)
	var mu sync.Mutex
	outcomes := map[string]error{}
	var calls atomic.Int64
	var stop, answered atomic.Bool
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for !stop.Load() {
				n := calls.Add(1)
				key := fmt.Sprint("n", n)
				ctx, cancel := someCtx()
				r := b.run(ctx, countScript.command(ctx, key, n))
				cancel()
				if r.err == nil && !reflect.DeepEqual(r.value, []any{int64(1), n}) {
					t.Errorf("call %d was answered %v", n, r.value)
				}
				if r.err == nil {
					answered.Store(true)
				}
				mu.Lock()
				outcomes[key] = r.err
				mu.Unlock()
			}
		})
	}
	direct := connect(t, srv.Addr).client
	forget := func() { direct.ScriptFlush(t.Context()) }
	eventually(t, "an answer", answered.Load)
	amidFaults(srv, p, 2, fault{forget, forget})
	stop.Store(true)
	wg.Wait()
	counts := map[string]int{}
	for key, err := range outcomes {
		n, redisErr := direct.Get(t.Context(), key).Int()
		if redisErr != nil && !errors.Is(redisErr, redis.Nil) {
			t.Fatal(redisErr)
		}
		switch {
		case err == nil && n != 1, err != nil && driver.Definite(err) && n != 0, n > 1:
			t.Errorf("%s: %v, and was run %d times", key, err, n)
		case err == nil:
			counts["answered"]++
		case driver.Definite(err):
			counts["not sent"]++
		default:
			counts["unknown"]++
		}
	}
	t.Log(counts)
}
