package guide

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/file"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/coordtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// log is what the application of a test has done.
type log struct {
	mu   sync.Mutex
	did  []string
	then func(ctx context.Context, what string) error
}

// record has the application's deeds noted, and then gives what then gives.
func record(t *testing.T, then func(ctx context.Context, what string) error) *log {
	l := &log{then: then}
	before := done
	t.Cleanup(func() { done = before })
	done = func(ctx context.Context, what string) error {
		l.mu.Lock()
		l.did = append(l.did, what)
		l.mu.Unlock()
		if l.then == nil {
			return nil
		}
		return l.then(ctx, what)
	}
	return l
}

func (l *log) count(what string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.did {
		if w == what {
			n++
		}
	}
	return n
}

// inDir runs in a directory with a coord.yaml.
func inDir(t *testing.T, yaml string) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile(filepath.Join(dir, "coord.yaml"), []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestConfigured(t *testing.T) {
	inDir(t, "url: file://"+t.TempDir()+"\nlimits: {supplier: 2000/1m}\n")
	if err := configured(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestObserved(t *testing.T) {
	client, err := openMeasured(t.Context(), "memory://")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(invoices(t.Context(), client), client.Close()); err != nil {
		t.Error(err)
	}
}

// Transfers in opposite directions end, and each has both accounts.
func TestMoveMoney(t *testing.T) {
	client := coordtest.New(t)
	var wg sync.WaitGroup
	var moved atomic.Int32
	for _, way := range [][2]string{{"account/3", "account/7"}, {"account/7", "account/3"}} {
		for range 20 {
			wg.Go(func() {
				err := moveMoney(t.Context(), client.Client, way[0], way[1], func(ctx context.Context) error {
					_, from := coord.Held(ctx, way[0])
					_, to := coord.Held(ctx, way[1])
					if from && to {
						moved.Add(1)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	if n := moved.Load(); n != 40 {
		t.Errorf("%d transfers had both accounts, want 40", n)
	}
}

// What a stream has used is paid, also if its user has left, and a tenant in debt has to wait.
func TestCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := coord.New(memory.New())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		left := func(key string, limit coord.Limit) coord.Result {
			r, err := c.Peek(t.Context(), key, limit)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		key, show := coord.Key("tenant", "a"), func(string) error { return nil }
		if err := complete(t.Context(), c, "a", "three short words", show); err != nil {
			t.Error(err)
		}
		if n := left(key, budget).Remaining; n != 20_000-3*40 {
			t.Errorf("%d left after a short answer, want %d", n, 20_000-3*40)
		}
		ctx, leave := context.WithCancel(t.Context())
		err = complete(ctx, c, "a", "the user leaves after the third of them", func(text string) error {
			if text == "leaves" {
				leave()
			}
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("of a user who has left: %v", err)
		}
		if n := left(key, budget).Remaining; n != 20_000-6*40 {
			t.Errorf("%d left after the user left, want %d", n, 20_000-6*40)
		}
		if err := complete(t.Context(), c, "a", strings.Repeat("word ", 1000), show); err != nil {
			t.Error(err)
		}
		if r := left(key, budget); r.Allowed || r.RetryAfter < 10*time.Second {
			t.Errorf("after 40000 tokens where 1550 were estimated: %+v, want a debt", r)
		}
		if err := complete(t.Context(), c, "a", "more", show); !errors.Is(err, coord.ErrLimited) {
			t.Errorf("in debt: %v, want ErrLimited", err)
		}
	})
}

// Work under a lock is done under it, by one at a time, and by none of two where nobody waits.
func TestLocked(t *testing.T) {
	client := coordtest.New(t)
	held := func(key string) func(context.Context, string) error {
		return func(context.Context, string) error {
			if _, err := client.TryLock(context.Background(), key); !errors.Is(err, coord.ErrLocked) {
				t.Errorf("%s is free under the lock: %v", key, err)
			}
			return nil
		}
	}
	for _, tc := range []struct {
		key, what string
		do        func(context.Context, *coord.Client) error
	}{
		{"invoices", "invoices", invoices},
		{"export", "export", export},
		{"report", "report", byHand},
	} {
		did := record(t, held(tc.key))
		if err := tc.do(t.Context(), client.Client); err != nil || did.count(tc.what) != 1 {
			t.Errorf("%s: %v, %v", tc.what, did.did, err)
		}
	}
}

// What was done under a lock that was lost is discarded.
func TestLost(t *testing.T) {
	client := coordtest.New(t)
	did := record(t, func(ctx context.Context, what string) error {
		if what == "export" {
			client.Lose("export")
			<-ctx.Done()
			return context.Cause(ctx)
		}
		return nil
	})
	if err := export(t.Context(), client.Client); !errors.Is(err, coord.ErrLost) || did.count("discard") != 1 {
		t.Errorf("export: %v, %v", did.did, err)
	}
}

// A bounded wait ends.
func TestInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := coordtest.New(t)
		did := record(t, nil)
		lock, err := client.Lock(t.Context(), "export")
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if err := export(t.Context(), client.Client); err == nil || did.count("export") != 0 || time.Since(begun) < time.Minute {
			t.Errorf("export: %v after %v", err, time.Since(begun))
		}
		if err := lock.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Of two workers one leads; when its lock is taken away, another does.
func TestLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		a, b := coordtest.NewOn(t, store), coordtest.NewOn(t, store)
		var active atomic.Int32
		did := record(t, func(ctx context.Context, what string) error {
			if active.Add(1) > 1 {
				t.Error("two lead")
			}
			<-ctx.Done()
			active.Add(-1)
			return context.Cause(ctx)
		})
		ctx, cancel := context.WithCancel(t.Context())
		for _, c := range []*coordtest.Client{a, b} {
			go func() { _ = lead(ctx, c.Client, dispatch) }()
		}
		synctest.Wait()
		leader, err := b.Inspect(ctx, "dispatcher")
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Break(ctx, "dispatcher", leader.ID); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if n := did.count("dispatch"); n != 2 || active.Load() != 1 {
			t.Errorf("%d have led, %d lead: want 2, one after the other", n, active.Load())
		}
		cancel()
		synctest.Wait()
	})
}

// A leader goes on a second after an order that failed, and stops with its term.
func TestDispatchOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := coordtest.New(t)
		orders := record(t, func(context.Context, string) error {
			time.Sleep(time.Second)
			return errors.New("no such address")
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := coord.Lead(ctx, client, "dispatcher", dispatchOrders)
		if n := orders.count("next"); n < 5 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d orders, %v", n, err)
		}
	})
}

// Who follows is told of the leader and of vacancy.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := coordtest.New(t)
		ctx, cancel := context.WithCancel(t.Context())
		var seen []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			follow(ctx, client.Client, func(addr string) { seen = append(seen, addr) })
		}()
		time.Sleep(time.Minute)
		err := coord.Do(ctx, client, "dispatcher", func(context.Context) error {
			time.Sleep(time.Minute)
			return nil
		}, coord.HolderName("a:1"))
		if err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		cancel()
		<-done
		if want := []string{"", "a:1", "", ""}; !slices.Equal(seen, want) { // the last is of the end
			t.Errorf("saw %q, want %q", seen, want)
		}
	})
}

// Machines whose clocks differ run a job once in an interval.
func TestOncePerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		did := record(t, nil)
		for _, late := range []time.Duration{0, time.Second, 9 * time.Minute} {
			c := coordtest.NewOn(t, store)
			time.AfterFunc(late, func() {
				if err := nightly(t.Context(), c.Client); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Hour)
		if n := did.count("report"); n != 1 {
			t.Errorf("the nightly report was written %d times", n)
		}
	})
}

func TestServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := coordtest.New(t)
		var codes []int
		for range 6 {
			w := httptest.NewRecorder()
			serve(client.Client, "ann", w, httptest.NewRequest(http.MethodGet, "/", nil))
			codes = append(codes, w.Code)
			if after := w.Header().Get("Retry-After"); w.Code == http.StatusTooManyRequests && after != "2" {
				t.Errorf("Retry-After %q: want 2, for 1.01 s", after)
			}
		}
		if want := []int{200, 200, 200, 200, 200, 429}; !slices.Equal(codes, want) {
			t.Errorf("%v: want %v", codes, want)
		}
	})
}

func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := coordtest.New(t)
		for range 5 {
			if ok, err := admit(t.Context(), client.Client, "ann", "acme"); !ok || err != nil {
				t.Errorf("admit: %v, %v", ok, err)
			}
		}
		if ok, err := admit(t.Context(), client.Client, "ann", "acme"); ok || err != nil {
			t.Errorf("the sixth: %v, %v", ok, err)
		}
	})
}

func TestOverride(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := coordtest.New(t)
		if err := raise(t.Context(), client.Client, "acme"); err != nil {
			t.Fatal(err)
		}
		if list, err := client.Overrides(t.Context()); err != nil || len(list) != 1 || list[0].Factor != 10 || list[0].Left != 48*time.Hour {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// most is how many permits of a limit were granted within any minute of ten, to one who asks all the time, but for a
// pause that lets the limit fill up: so that what it grants at once and what it goes on granting fall into one minute.
func most(t *testing.T, limit coord.Limit) (worst, total int) {
	synctest.Test(t, func(t *testing.T) {
		client := coordtest.New(t)
		const step = 50 * time.Millisecond
		var grants []int
		for i := range 6 * int(time.Minute/step) {
			n := 0
			if at := time.Duration(i) * step; at < 30*time.Second || at >= 119*time.Second {
				r, err := client.AllowAtMost(t.Context(), "k", limit, limit.Rate)
				if err != nil {
					t.Fatal(err)
				}
				n = r.Granted
			}
			grants = append(grants, n)
			time.Sleep(step)
		}
		window := int(time.Minute / step)
		for i := range grants {
			sum := 0
			for _, n := range grants[i:min(i+window, len(grants))] {
				sum += n
			}
			worst = max(worst, sum)
		}
		for _, n := range grants[len(grants)-2*window:] {
			total += n
		}
	})
	return worst, total / 2
}

// The same rate, by three algorithms.
var (
	strict = coord.PerMinute(2000)                                                   // "2000/1m"
	bursty = coord.Limit{Rate: 2000, Per: time.Minute, Burst: 200}                   // "2000/1m burst=200"
	cheap  = coord.Limit{Rate: 2000, Per: time.Minute, Algorithm: coord.FixedWindow} // "2000/1m fixed-window"
	capped = coord.Limit{Rate: 1800, Per: time.Minute, Burst: 200}                   // "1800/1m burst=200"
)

// The figures of the table of algorithms on the page, of limits as coord.yaml has them.
func TestAlgorithms(t *testing.T) {
	for _, tc := range []struct {
		text            string
		limit           coord.Limit // on the page, zero if it is not
		bound, atLeast  int         // in any minute
		sustained, slop int         // a minute, in the long run
	}{
		{"2000/1m", strict, 2000, 2000, 1980, 20},
		{"2000/1m burst=200", bursty, 2200, 2190, 2000, 2},
		{"1800/1m burst=200", capped, 2000, 1990, 1800, 2},
		{"2000/1m token-bucket", coord.Limit{}, 4000, 3990, 2000, 2},
		{"2000/1m fixed-window", cheap, 4000, 4000, 2000, 2},
	} {
		limit, err := coord.ParseLimit(tc.text)
		if err != nil || tc.limit != (coord.Limit{}) && tc.limit != limit {
			t.Errorf("%s is %+v, %v: want %+v", tc.text, limit, err, tc.limit)
		}
		worst, sustained := most(t, limit)
		if worst > tc.bound || worst < tc.atLeast {
			t.Errorf("%s: %d in one minute: want %d to %d", tc.text, worst, tc.atLeast, tc.bound)
		}
		if sustained < tc.sustained-tc.slop || sustained > tc.sustained+tc.slop {
			t.Errorf("%s: %d a minute in the long run: want about %d", tc.text, sustained, tc.sustained)
		}
	}
}
