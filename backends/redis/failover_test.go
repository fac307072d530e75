package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// replicated is a store whose master is replaced when it is gone.
type replicated struct {
	*testserver.Cluster
	client   func() redis.UniversalClient
	master   func() *testserver.Server // of the key k
	replicas []*testserver.Server      // of the first master
}

func overSentinels(t *testing.T) replicated {
	c := testserver.RedisSentinel(t, silently)
	return replicated{
		Cluster: c, replicas: c.Nodes[1:3], master: c.Leader,
		client: func() redis.UniversalClient { return sentinelClient(t, c, nil) },
	}
}

func overCluster(t *testing.T) replicated {
	c := testserver.RedisCluster(t, 1, silently)
	slot := c.RedisSlot(lockKey("k"))
	first := c.RedisMaster(slot)
	return replicated{
		Cluster: c, replicas: []*testserver.Server{c.Nodes[3+slices.Index(c.Nodes, first)]},
		master: func() *testserver.Server { return c.RedisMaster(slot) },
		client: func() redis.UniversalClient { return clusterClient(c, nil) },
	}
}

// onBoth runs a test over sentinels and over a cluster.
func onBoth(t *testing.T, test func(t *testing.T, r replicated)) {
	for name, start := range map[string]func(*testing.T) replicated{"sentinel": overSentinels, "cluster": overCluster} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t))
		})
	}
}

// settled repeats op until the store answers, and gives its answer.
func settled(t *testing.T, op func(ctx context.Context) error) error {
	t.Helper()
	for deadline := time.Now().Add(hung); ; {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err := op(ctx)
		cancel()
		if err == nil || errors.Is(err, driver.ErrNotHeld) || errors.Is(err, driver.ErrLocked) {
			return err
		}
		if time.Now().After(deadline) {
			t.Fatalf("no answer after the failover: %v", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// cutOff makes the replicas miss what the master does from now on: they are stopped, and
// their connections ended, before they could read it.
func (r replicated) cutOff(t *testing.T) {
	t.Helper()
	for _, s := range r.replicas {
		s.Pause()
		awaitSilence(t, s)
	}
	client := redis.NewClient(clientOptions(r.master().Addr))
	defer client.Close()
	if err := client.Do(t.Context(), "CLIENT", "KILL", "TYPE", "replica").Err(); err != nil {
		t.Fatal(err)
	}
}

// awaitSilence waits until a server that was told to stop has stopped.
func awaitSilence(t *testing.T, s *testserver.Server) {
	t.Helper()
	o := clientOptions(s.Addr)
	o.ReadTimeout, o.MaxRetries = 100*time.Millisecond, -1
	client := redis.NewClient(o)
	defer client.Close()
	for deadline := time.Now().Add(hung); client.Ping(t.Context()).Err() == nil; {
		if time.Now().After(deadline) {
			t.Fatalf("%s still answers", s.Addr)
		}
	}
}

// TestNightlyTrap06FailoverLosesTheWrite: the master dies before its replicas have the lock. The
// holder's next renewal that is answered says that the hold is gone, and does not bring
// it back; the next holder's token is greater than the lost one.
func TestNightlyTrap06FailoverLosesTheWrite(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, r replicated) {
		b := connectTo(t, r.client())
		ctx := t.Context()
		before, lost, next := request("a", time.Minute), request("b", time.Minute), request("c", time.Minute)
		must[driver.Grant](t)(b.TryLock(ctx, "k", before)) // the connection is there
		if err := b.Unlock(ctx, "k", before.ID); err != nil {
			t.Fatal(err)
		}
		first := r.master()
		r.cutOff(t)
		held := must[driver.Grant](t)(b.TryLock(ctx, "k", lost))
		first.Kill()
		for _, s := range r.replicas {
			s.Resume()
		}
		if err := settled(t, func(ctx context.Context) error { _, err := b.Renew(ctx, "k", lost); return err }); !errors.Is(err, driver.ErrNotHeld) {
			t.Fatalf("renewed after the failover: %v, want ErrNotHeld", err)
		}
		if _, err := b.Inspect(ctx, "k"); !errors.Is(err, driver.ErrNotHeld) {
			t.Errorf("Inspect: %v, want ErrNotHeld", err)
		}
		if got := b.RenewAll(ctx, []driver.Hold{{Key: "k", Request: lost}})[0]; !errors.Is(got.Err, driver.ErrNotHeld) {
			t.Errorf("RenewAll: %+v", got)
		}
		if g := must[driver.Grant](t)(b.TryLock(ctx, "k", next)); g.Token <= held.Token {
			t.Errorf("token %d after %d, which was lost", g.Token, held.Token)
		}
		// The old master comes back as a replica, and with it nothing of the lost hold.
		first.Restart()
		must[driver.Grant](t)(b.Renew(ctx, "k", next))
	})
}

// TestNightlyTrap07Wait: with WithWaitReplicas a lock that the replicas have survives the
// failover, with its token; one that they do not have is given back, and is an error
// that says so.
func TestNightlyTrap07Wait(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, r replicated) {
		n := len(r.replicas)
		b := connectTo(t, r.client(), WithWaitReplicas(n, time.Second))
		plain := connectTo(t, r.client())
		ctx := t.Context()
		first := r.master()
		kept := request("a", time.Minute)
		// A replica that has just started may still be busy with its files.
		if err := settled(t, func(ctx context.Context) error { _, err := b.TryLock(ctx, "k", kept); return err }); err != nil {
			t.Fatal(err)
		}
		if _, err := b.TryLock(ctx, "k", request("b", time.Minute)); !errors.Is(err, driver.ErrLocked) {
			t.Errorf("%v, want ErrLocked", err)
		}
		must[driver.Grant](t)(b.Renew(ctx, "k", kept)) // the script is known
		before := first.Commands()
		held := must[driver.Grant](t)(b.Renew(ctx, "k", kept))
		if after := first.Commands(); after["wait"]-before["wait"] != 1 || after["evalsha"]-before["evalsha"] != 1 {
			t.Errorf("a renewal took %v, then %v", before, after)
		}

		r.cutOff(t)
		short := request("c", time.Minute)
		// Of another name with the same slot, so that it is the same master.
		name := sameSlot(t, r, "k")
		if _, err := b.TryLock(ctx, name, short); !errors.Is(err, driver.ErrNotSent) {
			t.Errorf("TryLock without replicas: %v, want ErrNotSent", err)
		}
		if _, err := plain.Inspect(ctx, name); !errors.Is(err, driver.ErrNotHeld) {
			t.Errorf("Inspect: %v, want the hold given back", err)
		}
		for what, err := range map[string]error{
			"Renew":    func() error { _, err := b.Renew(ctx, "k", kept); return err }(),
			"RenewAll": b.RenewAll(ctx, []driver.Hold{{Key: "k", Request: kept}})[0].Err,
		} {
			if err == nil || driver.Definite(err) {
				t.Errorf("%s without replicas: %v, want an unknown outcome", what, err)
			}
		}
		if h := must[driver.Holder](t)(plain.Inspect(ctx, "k")); h.ID != kept.ID || h.Released {
			t.Errorf("%+v, want the hold as it was", h)
		}

		first.Kill()
		for _, s := range r.replicas {
			s.Resume()
		}
		var again driver.Grant
		if err := settled(t, func(ctx context.Context) (err error) { again, err = plain.Renew(ctx, "k", kept); return err }); err != nil || again.Token != held.Token {
			t.Errorf("after the failover: %+v, %v, want the hold with token %d", again, err, held.Token)
		}
	})
}

// sameSlot gives a name other than name whose keys are on the same master.
func sameSlot(t *testing.T, r replicated, name string) string {
	t.Helper()
	first := r.master()
	for i := range 1000 {
		other := fmt.Sprint("name", i)
		if len(r.replicas) == 2 || r.RedisMaster(r.RedisSlot(lockKey(other))) == first {
			return other
		}
	}
	t.Fatal("no such name")
	return ""
}

func TestWaitReplicasRefused(t *testing.T) {
	t.Parallel()
	srv := testserver.Redis(t)
	for name, opt := range map[string]Option{
		"none":          WithWaitReplicas(0, time.Second),
		"too many":      WithWaitReplicas(maxReplicas+1, time.Second),
		"as ReadTimout": WithWaitReplicas(1, 2*time.Second),
		"negative":      WithWaitReplicas(1, -time.Second),
	} {
		client := redis.NewClient(clientOptions(srv.Addr))
		if _, err := New(client, opt); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
	// A server without replicas grants nothing then, and keeps nothing.
	b := connectTo(t, redis.NewClient(clientOptions(srv.Addr)), WithWaitReplicas(1, 20*time.Millisecond))
	if _, err := b.TryLock(t.Context(), "k", request("a", time.Minute)); !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("%v, want ErrNotSent", err)
	}
	if _, err := b.Inspect(t.Context(), "k"); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("%v, want ErrNotHeld", err)
	}
	// Under a ctx that ends while it waits, the caller is told in time.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := b.TryLock(ctx, "k", request("a", time.Minute)); err == nil {
		t.Error("granted without a replica")
	}
}

// tenure is one hold as its holder saw it.
type tenure struct {
	token      coord.Token
	from, till time.Time // from before it was asked for, till Done or Unlock, or its deadline
}

// TestNightlyFailoverUnderLoad: the master dies while eight contend for one lock. All go on
// after the failover; tokens rise; and two hold at once only after the master died, for
// less than a TTL, because the former holder learns of its loss by then.
func TestNightlyFailoverUnderLoad(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, r replicated) {
		const ttl = 1500 * time.Millisecond
		var mu sync.Mutex
		var tenures []tenure
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var wg sync.WaitGroup
		for range 4 {
			client := contender(t, r)
			for range 2 {
				wg.Go(func() {
					for ctx.Err() == nil {
						if seen, ok := holdOnce(ctx, client, ttl); ok {
							mu.Lock()
							tenures = append(tenures, seen)
							mu.Unlock()
						}
					}
				})
			}
		}
		granted := func(after time.Time) (n int) {
			mu.Lock()
			defer mu.Unlock()
			for _, h := range tenures {
				if h.from.After(after) {
					n++
				}
			}
			return n
		}
		await := func(what string, after time.Time) {
			t.Helper()
			for deadline := time.Now().Add(hung); granted(after) < 50; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%s: only %d locks", what, granted(after))
				}
			}
		}
		await("before the failover", time.Time{})
		died := time.Now()
		first := r.master()
		first.Kill()
		second := r.master()
		await("after the failover", time.Now())
		first.Restart()
		await("after the former master came back", time.Now())
		cancel()
		wg.Wait()
		if second == first {
			t.Error("there was no failover")
		}
		checkTenures(t, tenures, died, ttl)
	})
}

func contender(t *testing.T, r replicated) *coord.Client {
	t.Helper()
	client := r.client()
	b, err := New(client, WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	c, err := coord.New(b, coord.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), client.Close()); err != nil {
			t.Error(err)
		}
	})
	return c
}

func holdOnce(ctx context.Context, c *coord.Client, ttl time.Duration) (tenure, bool) {
	l, err := c.Lock(ctx, "k", coord.TTL(ttl))
	if err != nil {
		time.Sleep(time.Millisecond) // the store is away
		return tenure{}, false
	}
	h := tenure{token: l.Token(), from: time.Now()}
	select {
	case <-l.Done():
	case <-time.After(2 * time.Millisecond):
	}
	if h.till = time.Now(); h.till.After(l.Deadline()) {
		h.till = l.Deadline()
	}
	// In an outage it is not confirmed: the lease bounds it.
	_ = l.Unlock(context.WithoutCancel(ctx))
	return h, true
}

func checkTenures(t *testing.T, tenures []tenure, died time.Time, ttl time.Duration) {
	t.Helper()
	slices.SortFunc(tenures, func(a, b tenure) int { return a.from.Compare(b.from) })
	overlaps := 0
	for i := 1; i < len(tenures); i++ {
		a, b := tenures[i-1], tenures[i]
		if b.token <= a.token && b.from.After(a.till) {
			t.Errorf("token %d after %d", b.token, a.token)
		}
		if b.from.Before(a.till) {
			overlaps++
			if b.from.Before(died) || a.till.Sub(b.from) > ttl {
				t.Errorf("two hold for %v, %v after the master died", a.till.Sub(b.from), b.from.Sub(died))
			}
		}
	}
	t.Logf("%d holds, of which %d overlapped the one before", len(tenures), overlaps)
}
