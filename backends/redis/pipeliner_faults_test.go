package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/doctor"
	"github.com/coordgo/coord/internal/testserver"
)

const callers = 64 // goroutines

// fault is one of the way to a server, or of the server.
type fault struct{ begin, end func() }

// amidFaults has faults of every kind come and go, while calls are made.
func amidFaults(srv *testserver.Server, p *conformance.Proxy, rounds int, more ...fault) {
	faults := append([]fault{
		{p.Cut, p.Heal},
		{p.DropReply, p.Heal},
		{p.StallReplies, p.Heal},
		{p.StallRequests, func() { p.Reset(); p.Heal() }},
		{srv.Pause, srv.Resume},
	}, more...)
	for range rounds {
		for _, f := range faults {
			time.Sleep(30 * time.Millisecond) // of calls that are all well
			f.begin()
			time.Sleep(60 * time.Millisecond)
			f.end()
		}
	}
}

// reads is how often the server has read from its connections.
func reads(t *testing.T, b *backend) int {
	t.Helper()
	text := must[string](t)(b.client.Info(t.Context(), "stats").Result())
	return must[int](t)(strconv.Atoi(doctor.Parse(text, ":")["total_reads_processed"]))
}

// TestManyGoroutinesShareRoundTrips: while a few calls are under way, those of others gather, and
// then go to the server together.
func TestManyGoroutinesShareRoundTrips(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	ctx := t.Context()
	must[driver.Grant](t)(b.TryLock(ctx, "warm", request("warm", time.Minute)))
	client := b.client.(*redis.Client)
	g := newPipeliner(b, client, time.Hour)
	b.pipeliners.one.Store(g)
	before := reads(t, b)
	srv.Pause()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			if _, err := b.TryLock(ctx, fmt.Sprint("k", i), request("a", time.Minute)); err != nil {
				t.Error(err)
			}
		})
	}
	for deadline := time.Now().Add(hung); g.Waiting() < callers-maxActive; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d calls wait", g.Waiting())
		}
	}
	srv.Resume()
	wg.Wait()
	// Each new connection begins with a few.
	n := reads(t, b) - before
	t.Logf("%d reads for %d calls", n, callers)
	if n > callers/2 {
		t.Errorf("%d reads for %d calls: want them to share", n, callers)
	}
}

// caller is one of the callers: it has a lock and a limit of its own.
type caller struct {
	b     *backend
	i     int
	limit driver.Limit
	lock  int   // number; a call that has come to nobody knows what may yet be carried out, and so the next has another key
	last  int64 // token
	left  int   // of the limit
	done  int   // rounds that were all well
}

const roundWithin = 150 * time.Millisecond

// round locks, takes and unlocks once.
func (s *caller) round() (err error) {
	key, limited := fmt.Sprint("k", s.i, ".", s.lock), fmt.Sprint("k", s.i)
	ctx, cancel := context.WithTimeout(context.Background(), roundWithin)
	defer cancel()
	start := time.Now()
	defer func() {
		if took := time.Since(start); took > hung { // what is forgotten takes for ever
			err = errors.Join(err, fmt.Errorf("a round took %v", took))
		}
	}()
	r := request("a", 200*time.Millisecond)
	g, err := s.b.TryLock(ctx, key, r)
	switch {
	case errors.Is(err, driver.ErrLocked):
		return fmt.Errorf("its own key is taken: %w", err)
	case err == nil && g.Token <= s.last:
		return fmt.Errorf("token %d after %d", g.Token, s.last)
	case driver.Definite(err):
		return nil
	case err != nil:
		s.lock, s.last = s.lock+1, 0
		return nil
	}
	s.last = g.Token
	taken, limitErr := s.b.TakeOne(ctx, limited, s.limit, driver.Ask{Min: 1, N: 1})
	if limitErr == nil {
		if taken.N != 1 || taken.Remaining >= s.left || taken.Remaining < s.left/2 {
			return fmt.Errorf("was given %+v of %d: the answer to another", taken, s.left)
		}
		s.left = taken.Remaining
	}
	bound := driver.NewBound(context.Background(), roundWithin)
	defer bound.Stop()
	switch err := s.b.Unlock(bound, key, r.ID); {
	case err == nil && limitErr == nil:
		s.done++
	case err == nil:
	case errors.Is(err, driver.ErrNotHeld) && time.Since(start) < r.TTL:
		return fmt.Errorf("its own lock is gone: %w", err)
	default: // it may hold for a while
		s.lock, s.last = s.lock+1, 0
	}
	return nil
}

// TestNightlyManyGoroutinesThroughFaults: whatever becomes of server and network, each caller gets
// its own answer or an error, in time, and when all is well again, so are the calls.
func TestNightlyManyGoroutinesThroughFaults(t *testing.T) {
	t.Parallel()
	srv := testserver.Redis(t, silently)
	p := proxyTo(t, srv)
	o := clientOptions(p.Addr())
	o.ReadTimeout, o.DialTimeout = 250*time.Millisecond, 250*time.Millisecond
	client := redis.NewClient(o)
	defer client.Close()
	made := must[driver.Backend](t)(New(client, WithLogger(slog.New(slog.DiscardHandler))))
	defer made.Close()
	b := made.(*backend)
	var stop, done atomic.Bool
	var wg sync.WaitGroup
	all := make([]*caller, callers)
	for i := range all {
		l := limitOf(t, fmt.Sprintf("%d/1h", 10_000<<(i%16)))
		s := &caller{b: b, i: i, limit: l, left: l.Rate}
		all[i] = s
		wg.Go(func() {
			for !stop.Load() {
				if err := s.round(); err != nil {
					t.Error(err)
					return
				}
				if s.done > 0 {
					done.Store(true)
				}
			}
		})
	}
	eventually(t, "a round without a fault", done.Load)
	amidFaults(srv, p, 3)
	stop.Store(true)
	wg.Wait()
	rounds := 0
	for _, s := range all {
		rounds += s.done
		s.done = 0
	}
	t.Logf("%d rounds without a fault", rounds)
	for _, s := range all { // the faults are over
		for deadline := time.Now().Add(hung); s.done == 0 && time.Now().Before(deadline); {
			if err := s.round(); err != nil {
				t.Fatal(err)
			}
		}
		if s.done == 0 {
			t.Fatalf("goroutine %d: calls fail although all is well", s.i)
		}
	}
}
