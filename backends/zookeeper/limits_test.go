package zookeeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
	"github.com/coordgo/coord/driver/limits"
)

// leaderNow is the leader's time, in Unix microseconds, as a client knows it.
func leaderNow(t testing.TB, b *backend) int64 {
	t.Helper()
	return must[time.Time](t)(b.leaderTime(t.Context())).UnixMicro()
}

// forgetTime has a client take the leader's clock to have been off when it last heard of it, too long ago.
func forgetTime(b *backend, off time.Duration) {
	past := time.Now().Add(-time.Hour)
	b.clock = cas.Clock{}
	b.clock.Learn(past, past, past.Add(off), 0)
}

// showTime has a client take the leader's clock to be off.
func showTime(b *backend, off time.Duration) {
	now := time.Now()
	b.clock.Learn(now, now, now.Add(off), 0)
}

// A slow answer moves the clock of a client no further than it must: each move makes permits, or takes them.
func TestClockMovesNoFurtherThanItMust(t *testing.T) {
	b := newBackend(nil, options{})
	came := time.Now()
	b.learn(came.Add(-time.Second), came, &zk.Stat{Mtime: came.Add(-time.Second / 2).UnixMilli()})
	least := time.Now()
	now, known := b.clock.Now()
	most := time.Now()
	if !known || now.Before(least.Add(-time.Millisecond)) || now.After(most.Add(time.Millisecond)) {
		t.Errorf("%v, known %v: want %v to %v", now, known, least, most)
	}
}

// Whatever the clocks of clients say, limits run on the leader's.
func TestLimitsIgnoreClientsClocks(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	l := limitOf(t, "10/1h fixed-window")
	for i, skew := range []time.Duration{-time.Hour, time.Hour, 0} {
		b := connect(t, urlWith(t, srv.Addr, calmSession))
		showTime(b, skew)
		// A write shows the leader's time; a restarted client asks for it first.
		if err := b.askTime(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := 10
		if i > 0 {
			want = 0
		}
		if one := must[driver.TakenOne](t)(b.TakeOne(t.Context(), "k", l, driver.Ask{Min: 1, N: 10})); one.N != want {
			t.Errorf("skew %v: %d granted, want %d", skew, one.N, want)
		}
		if off := leaderNow(t, b) - time.Now().UnixMicro(); off < -1_000_000 || off > 1_000_000 {
			t.Errorf("skew %v: %d µs off the server's clock", skew, off)
		}
	}
}

// Demands on one limit add up, and a denial says how each stands by itself.
func TestTakeAll(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	l := limitOf(t, "10/1h fixed-window")
	all := func(n ...int) []driver.Taken {
		t.Helper()
		var demands []driver.Demand
		for i, n := range n {
			demands = append(demands, driver.Demand{Key: []string{"a", "a", "b"}[i], Limit: l, N: n})
		}
		return must[[]driver.Taken](t)(b.TakeAll(t.Context(), demands))
	}
	out := all(6, 5, 1) // 11 of the first
	if out[0].Asks[0].N != 0 || out[1].Asks[0].N != 0 || out[1].Asks[0].RetryAfter <= 0 || out[2].Asks[0].N != 0 || out[0].Remaining != 10 || out[2].Remaining != 10 {
		t.Errorf("11 of 10: %+v", out)
	}
	out = all(6, 4, 1)
	if out[0].Asks[0].N != 6 || out[1].Asks[0].N != 4 || out[2].Asks[0].N != 1 || out[1].Remaining != 0 || out[2].Remaining != 9 {
		t.Errorf("10 of 10: %+v", out)
	}
	if out := all(0, 0, 3); out[2].Asks[0].N != 3 || out[0].Remaining != 0 {
		t.Errorf("two looks and 3 of 9: %+v", out)
	}
	_, err := b.TakeAll(t.Context(), []driver.Demand{{Key: "a", Limit: l, N: 11}})
	if !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("more than the limit: %v", err)
	}
	// Two clients that take the same limits in opposite order.
	other := connect(t, urlWith(t, b.wire.hosts[0], calmSession))
	var wg sync.WaitGroup
	many := limitOf(t, "100/1h fixed-window")
	for i, c := range []*backend{b, other, b, other} {
		wg.Go(func() {
			keys := []string{"x", "y"}
			for range 25 {
				if _, err := c.TakeAll(t.Context(), []driver.Demand{{Key: keys[i/2], Limit: many, N: 1}, {Key: keys[1-i/2], Limit: many, N: 1}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, key := range []string{"x", "y"} {
		if one := must[driver.TakenOne](t)(b.TakeOne(t.Context(), key, many, driver.Ask{})); one.Remaining != 0 {
			t.Errorf("%s: %d left of 100 after 100 were taken", key, one.Remaining)
		}
	}
}

// A conflict is bounded by ctx, and says that nothing was taken.
func TestConflictsEndWithCtx(t *testing.T) {
	t.Parallel()
	p, b := openTapped(t)
	beside := connect(t, urlWith(t, p.target, calmSession))
	l := limitOf(t, "1000/1h")
	one := driver.Ask{Min: 1, N: 1}
	must[driver.TakenOne](t)(b.TakeOne(t.Context(), "k", l, one))
	p.disturb(func(op int32) deed {
		if op == opSet { // somebody is always first
			if _, err := beside.TakeOne(context.Background(), "k", l, one); err != nil {
				t.Error(err)
			}
		}
		return pass
	})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := b.TakeOne(ctx, "k", l, one); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want ctx's error", err)
	}
	if took := time.Since(start); took > hung {
		t.Errorf("it took %v", took)
	}
	p.disturb(nil)
	must[driver.TakenOne](t)(b.TakeOne(t.Context(), "k", l, one))
}

// What is over is collected by whoever comes by, and nothing is left of it.
func TestCollect(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	b.collecting.Store(true) // by this test alone: after ten seconds of a busy machine the client would begin
	ctx, one := t.Context(), driver.Ask{Min: 1, N: 1}
	short, long := limitOf(t, "1/10ms burst=1"), limitOf(t, "1/1h burst=1")
	before := leaderNow(t, b)
	must[driver.TakenOne](t)(b.TakeOne(ctx, "short", short, one))
	must[driver.TakenOne](t)(b.TakeOne(ctx, "long", long, one))
	must[driver.TakenOne](t)(b.TakeOne(ctx, "reset", long, one))
	if err := b.Reset(ctx, "reset", long); err != nil {
		t.Fatal(err)
	}
	if left := must[driver.TakenOne](t)(b.TakeOne(ctx, "reset", long, driver.Ask{})).Remaining; left != 1 {
		t.Errorf("%d left after Reset", left)
	}
	after := leaderNow(t, b)
	collectAll := func(now int64, later time.Duration) int {
		t.Helper()
		total := 0
		for i := range 256 {
			n, err := b.collect(ctx, now+later.Microseconds(), byte(i))
			if err != nil {
				t.Fatal(err)
			}
			total += n
		}
		return total
	}
	if n := collectAll(after, 0); n != 0 {
		t.Errorf("%d removed at once", n)
	}
	if n := collectAll(before, collectMargin-time.Second); n != 0 {
		t.Errorf("%d removed though clocks may be so far apart", n)
	}
	if n := collectAll(after, collectMargin+time.Second); n != 1 {
		t.Errorf("%d removed a second after the short one was over, want that one", n)
	}
	if n := collectAll(after, 2*time.Hour); n != 2 {
		t.Errorf("%d removed after 2h, want the long ones", n)
	}
	for i := range 256 {
		if names, _, err := b.conn.Children(b.limitsDir(byte(i))); len(names) > 0 || err != nil && !errors.Is(err, zk.ErrNoNode) {
			t.Errorf("left in bucket %d: %v, %v", i, names, err)
		}
	}
	if g := must[driver.TakenOne](t)(b.TakeOne(ctx, "long", long, one)); g.N != 1 {
		t.Error("after it was collected: denied")
	}
}

// A write, or a removal, that stalled on its way arrives when the limit was collected and made again, and
// has as many writes behind it as before: it changes nothing.
func TestLateRequestsOfAnEarlierLimit(t *testing.T) {
	t.Parallel()
	l := limitOf(t, "10/1h")
	one := driver.Ask{Min: 1, N: 1}
	collect := func(b *backend) (n int, err error) {
		var found []litter
		eventually(t, "the last decision to leave the limit", func() bool {
			found = b.over(math.MaxInt64, 1)
			return len(found) == 1
		})
		return b.sweep(context.Background(), found)
	}
	for what, late := range map[string]func(b *backend) error{
		"write": func(b *backend) error {
			_, err := b.TakeOne(context.Background(), "k", l, one)
			return err
		},
		"removal": func(b *backend) error {
			_, err := collect(b)
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			p, b := openTapped(t)
			beside := connect(t, urlWith(t, p.target, calmSession))
			must[driver.TakenOne](t)(b.TakeOne(t.Context(), "k", l, one))
			stalled := make(chan struct{})
			var once sync.Once
			p.disturb(func(op int32) deed {
				if op != opSet && op != opMulti {
					return pass
				}
				once.Do(func() { close(stalled) })
				return hold
			})
			done := make(chan error, 1)
			go func() { done <- late(b) }()
			<-stalled
			// The limit is over, and is collected; then it is used up.
			if _, err := beside.TakeOne(t.Context(), "k", l, driver.Ask{}); err != nil {
				t.Fatal(err)
			}
			if n := must[int](t)(collect(beside)); n != 1 {
				t.Fatalf("%d collected, want 1", n)
			}
			if g := must[driver.TakenOne](t)(beside.TakeOne(t.Context(), "k", l, driver.Ask{Min: 10, N: 10})); g.N != 10 {
				t.Fatalf("%d of 10 granted to the next", g.N)
			}
			p.disturb(nil)
			p.release()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if g := must[driver.TakenOne](t)(beside.TakeOne(t.Context(), "k", l, one)); g.N != 0 {
				t.Errorf("granted one of 10 that were spent: %+v", g)
			}
		})
	}
}

// A client that uses many limits for a short time removes them in a few requests. What another wrote
// meanwhile stays.
func TestCollectorKeepsUp(t *testing.T) {
	t.Parallel()
	p, b := openTapped(t)
	b.collecting.Store(true) // by this test alone
	l := limitOf(t, "1/1ms")
	const n = 1500
	var keys atomic.Int32
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			for i := keys.Add(1); i <= n; i = keys.Add(1) {
				must[driver.TakenOne](t)(b.TakeOne(t.Context(), fmt.Sprint("k", i), l, driver.Ask{Min: 1, N: 1}))
			}
		})
	}
	all.Wait()
	showTime(b, collectMargin+time.Second)
	// Another client has used some of them since: ours are not the latest versions.
	other := connect(t, urlWith(t, p.target, calmSession))
	other.collecting.Store(true)
	for i := range 5 {
		must[driver.TakenOne](t)(other.TakeOne(t.Context(), fmt.Sprint("k", i+1), l, driver.Ask{Min: 1, N: 1}))
	}
	p.take()
	removed := 0
	for range 2 {
		removed += must[int](t)(b.collect(t.Context(), leaderNow(t, b), bucketOf("none")))
	}
	if removed < n-5 || removed > n {
		t.Errorf("two looks removed %d of %d", removed, n)
	}
	if requests := len(p.take()); requests > n {
		t.Errorf("%d requests", requests)
	}
	// What the others wrote is there.
	for i := range 5 {
		if ok, _, err := other.conn.Exists(b.limitPath(fmt.Sprint("k", i+1), l)); !ok || err != nil {
			t.Errorf("k%d: %v, %v", i+1, ok, err)
		}
	}
}

// The time of a record never goes back, whatever becomes of the state.
func TestRecordTimeNeverGoesBack(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	l := limitOf(t, "10/1h burst=10")
	path := b.limitPath("k", l)
	until := func() int64 {
		t.Helper()
		a := must[answer](t)(b.look(path, ""))
		until, _, err := parseRecord(a.data)
		if err != nil {
			t.Fatal(err)
		}
		return until
	}
	start := leaderNow(t, b)
	must[driver.TakenOne](t)(b.TakeOne(t.Context(), "k", l, driver.Ask{Min: 10, N: 10}))
	first := until()
	if least, most := start+time.Hour.Microseconds(), leaderNow(t, b)+time.Hour.Microseconds(); first < least || first > most {
		t.Fatalf("until %d, want %d to %d", first, least, most)
	}
	if err := b.Reset(t.Context(), "k", l); err != nil {
		t.Fatal(err)
	}
	if got := until(); got != first {
		t.Errorf("after a reset: until %d, want %d", got, first)
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte{})
	f.Add(recordUntil(1))
	var s limits.State
	state, err := s.AppendBinary(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(recordUntil(1<<50), state...))
	f.Fuzz(func(t *testing.T, b []byte) {
		until, _, err := parseRecord(b)
		switch {
		case err != nil && !errors.Is(err, driver.ErrCorrupt):
			t.Errorf("%x: %v", b, err)
		case err == nil && (until < 0 || !bytes.HasPrefix(b, recordUntil(until))):
			t.Errorf("%x reads as until %d", b, until)
		}
	})
}

// A demand for nothing is answered by what the store has, also by a client that has met no limit yet.
func TestTakeAllLooksAtWhatItDoesNotKnow(t *testing.T) {
	at := urlWith(t, shared(t).Addr, calmSession)
	l := driver.Limit{Rate: 10, Per: time.Hour, Algorithm: driver.FixedWindow}
	other := connect(t, at)
	must[driver.TakenOne](t)(other.TakeOne(t.Context(), "b", l, driver.Ask{Min: 10, N: 10}))
	fresh := connect(t, at)
	out := must[[]driver.Taken](t)(fresh.TakeAll(t.Context(), []driver.Demand{{Key: "a", Limit: l, N: 1}, {Key: "b", Limit: l, N: 0}}))
	if out[0].Asks[0].N != 1 || out[1].Remaining != 0 {
		t.Errorf("1 of a and a look at b, which is used up: %+v", out)
	}
}

// A demand for nothing of a limit that is new makes no node: one without a state reads as corrupt.
func TestTakeAllOfNothingMakesNoNode(t *testing.T) {
	t.Parallel()
	b := connect(t, urlWith(t, shared(t).Addr, calmSession))
	l := driver.Limit{Rate: 10, Per: time.Minute, Algorithm: driver.SlidingWindow}
	if _, err := b.TakeAll(t.Context(), []driver.Demand{{Key: "a", Limit: l, N: 1}, {Key: "b", Limit: l, N: 0}}); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b"} {
		if one, err := b.TakeOne(t.Context(), key, l, driver.Ask{Min: 1, N: 1}); err != nil || one.N != 1 {
			t.Errorf("%s: %+v, %v", key, one, err)
		}
	}
}

// Limits that no client remembers, of clients that have gone or because they were too many, are removed without
// a pause as long as a bucket has many of them.
func TestRoundRemovesWhatIsForgotten(t *testing.T) {
	var left [256]int
	sum := 0
	for i := range left {
		left[i] = 330 // of 84,000
		sum += left[i]
	}
	r, took := round{}, time.Duration(0)
	for sum > 0 && took < 24*time.Hour {
		n := min(left[r.bucket], collectMost)
		left[r.bucket] -= n
		sum -= n
		took += r.next(n)
	}
	if most := 2 * 256 * collectSoon; sum > 0 || took > most+2*collectEvery {
		t.Errorf("%d are left after %v: want none after %v", sum, took, most)
	}
}

// A state that the leader's clock made when it was an hour ahead is in nobody's way for an hour, and its node is
// collected as any other.
func TestLimitsOfAClockThatWasSetBack(t *testing.T) {
	t.Parallel()
	b := connect(t, urlWith(t, shared(t).Addr, calmSession))
	l := limitOf(t, "10/1s sliding-window")
	ahead := leaderNow(t, b) + time.Hour.Microseconds()
	var s limits.State
	if out, _ := s.Take(l, ahead, driver.Ask{Min: 10, N: 10}); out.N != 10 {
		t.Fatalf("of a fresh limit: %+v", out)
	}
	// One decision makes the directories, and another state takes its place.
	dirs := make(map[string]string)
	for _, key := range []string{"one", "two", "three"} {
		must[driver.TakenOne](t)(b.TakeOne(t.Context(), key, l, driver.Ask{Min: 1, N: 1}))
		dir := b.limitPath(key, l)
		node := must[string](t)(b.incarnation(dir))
		data := must[[]byte](t)(s.AppendBinary(recordUntil(ahead + time.Hour.Microseconds())))
		must[*zk.Stat](t)(b.conn.Set(node, data, -1))
		dirs[key] = node
	}
	b.states.Forget(func(*cell) bool { return true })
	start := time.Now()
	take := func(what string, take func() int) {
		t.Helper()
		for take() < 10 {
			if time.Since(start) > hung {
				t.Fatalf("%s: denied", what)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	take("a limit", func() int {
		return must[driver.TakenOne](t)(b.TakeOne(t.Context(), "one", l, driver.Ask{Min: 10, N: 10})).N
	})
	take("several limits", func() int {
		return must[[]driver.Taken](t)(b.TakeAll(t.Context(), []driver.Demand{{Key: "two", Limit: l, N: 10}, {Key: "three", Limit: l, N: 10}}))[0].Asks[0].N
	})
	for key, node := range dirs {
		data, _, err := b.conn.Get(node)
		if err != nil {
			t.Fatal(err)
		}
		until, _, err := parseRecord(data)
		if most := leaderNow(t, b) + time.Minute.Microseconds(); err != nil || until > most {
			t.Errorf("%s is kept for %v, %v", key, time.Duration(until-leaderNow(t, b))*time.Microsecond, err)
		}
	}
}
