package coord

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
)

// road is a store of several limits at once that shows what travelled together.
type road struct {
	fakeMulti
	mu    sync.Mutex
	calls []string // the demands of each call
}

func newRoad() *road { return &road{fakeMulti: newFakeMulti()} }

func (f *road) TakeAll(ctx context.Context, demands []driver.Demand) ([]driver.Taken, error) {
	var text []string
	for _, d := range demands {
		text = append(text, fmt.Sprint(d.Key, ":", d.N))
	}
	f.mu.Lock()
	f.calls = append(f.calls, strings.Join(text, " "))
	f.mu.Unlock()
	return f.fakeMulti.TakeAll(ctx, demands)
}

// convoyTest is a client one of whose calls is in the store, until release.
type convoyTest struct {
	*Client
	f       *road
	release func()
	wg      sync.WaitGroup
}

// onTheRoad runs fn in a bubble, while a call over the keys "all" and "first" is under way.
func onTheRoad(t *testing.T, fn func(*testing.T, *convoyTest)) {
	synctest.Test(t, func(t *testing.T) {
		f := newRoad()
		s := &convoyTest{Client: newTestClient(t, f), f: f}
		s.hold(t)
		fn(t, s)
		s.wg.Wait()
		synctest.Wait()
		if len(s.convoys.busy) != 0 || len(s.convoys.queue) != 0 {
			t.Errorf("busy %v, %d wait: want nothing to be left", s.convoys.busy, len(s.convoys.queue))
		}
	})
}

// hold has a call under way, until release.
func (s *convoyTest) hold(t *testing.T) {
	gate, once := make(chan struct{}), sync.Once{}
	s.f.setIntercept(func(op, key string) outcome {
		first := false
		once.Do(func() { first = true })
		if first {
			<-gate
		}
		return outcome{}
	})
	s.release = func() { close(gate) }
	s.wg.Go(func() {
		if _, err := s.AllowAll(t.Context(), one("all"), one("first")); err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
}

// one is a permit of ten an hour.
func one(key string) Demand { return Demand{Key: key, Limit: PerHour(10), N: 1} }

// ask makes an AllowAll that waits in line, and gives its end.
func (s *convoyTest) ask(t *testing.T, ctx context.Context, demands ...Demand) <-chan allowed {
	t.Helper()
	ch := make(chan allowed, 1)
	go func() {
		r, err := s.AllowAll(ctx, demands...)
		ch <- allowed{r, err}
	}()
	synctest.Wait()
	return ch
}

type allowed struct {
	results []Result
	err     error
}

// yes reports whether it was allowed, and fails the test if it cannot be told or the results differ.
func (a allowed) yes(t *testing.T) bool {
	t.Helper()
	if a.err != nil {
		t.Fatal(a.err)
	}
	retry := time.Duration(0)
	for _, r := range a.results {
		if r.Allowed != a.results[0].Allowed || (r.Granted > 0) != r.Allowed {
			t.Errorf("%+v: want all or nothing", a.results)
		}
		retry = max(retry, r.RetryAfter)
	}
	if a.results[0].Allowed == (retry > 0) {
		t.Errorf("%+v: want a time to come back exactly if it is denied", a.results)
	}
	return a.results[0].Allowed
}

func (s *convoyTest) wantCalls(t *testing.T, want ...string) {
	t.Helper()
	if got := s.f.calls; fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("calls\n%q, want\n%q", got, want)
	}
}

// What meets at a key travels together, in order, and what does not is not kept waiting.
func TestConvoy(t *testing.T) {
	onTheRoad(t, func(t *testing.T, s *convoyTest) {
		var waits []<-chan allowed
		for _, user := range []string{"a", "b", "a"} {
			waits = append(waits, s.ask(t, t.Context(), one(user), one("all")))
		}
		waits = append(waits, s.ask(t, t.Context(), one("first"))) // meets the first, but not those
		if !(<-s.ask(t, t.Context(), one("apart"))).yes(t) {
			t.Error("denied")
		}
		s.release()
		for _, w := range waits {
			if a := <-w; !a.yes(t) {
				t.Errorf("%+v: want it to be allowed", a.results)
			} else if last := a.results[len(a.results)-1]; len(a.results) == 2 && last.Remaining != 6 {
				t.Errorf("%+v: want 6 to remain after all four", last)
			}
		}
		// The two last travel side by side.
		if got := s.f.calls; len(got) == 4 && got[2] == "first:1" {
			got[2], got[3] = got[3], got[2]
		}
		s.wantCalls(t, "all:1 first:1", "apart:1", "a:2 all:3 b:1", "first:1")
	})
}

// A convoy that asks for too much parts until everybody has the answer that they would have
// had alone, one after the other.
func TestConvoyParts(t *testing.T) {
	onTheRoad(t, func(t *testing.T, s *convoyTest) {
		seven := Demand{Key: "u1", Limit: PerHour(10), N: 7}
		waits := []<-chan allowed{
			s.ask(t, t.Context(), one("u0"), one("all")),
			s.ask(t, t.Context(), seven, one("all")),
			s.ask(t, t.Context(), one("u2"), one("all")),
		}
		small := Demand{Key: "all", Limit: PerHour(10), N: 6}
		waits = append(waits, s.ask(t, t.Context(), one("u3"), small)) // 6 of the 6 that are left
		waits = append(waits, s.ask(t, t.Context(), one("u0"), small)) // none is left
		waits = append(waits, s.ask(t, t.Context(), one("u4"), one("all")))
		s.release()
		for i, want := range []bool{true, true, true, true, false, false} {
			if got := (<-waits[i]).yes(t); got != want {
				t.Errorf("%d: allowed %v, want %v", i, got, want)
			}
		}
		for key, want := range map[string]int{"u0": 9, "u1": 3, "u2": 9, "u3": 9, "u4": 10, "all": 0} {
			if n := left(t, s.Client, key, PerHour(10)); n != want {
				t.Errorf("%d left of %s, want %d", n, key, want)
			}
		}
	})
}

// Whoever asks for the same as one who was denied is denied with it.
func TestConvoyOfTheDenied(t *testing.T) {
	onTheRoad(t, func(t *testing.T, s *convoyTest) {
		two := Demand{Key: "all", Limit: PerHour(10), N: 2}
		var waits []<-chan allowed
		for range 5 { // all that may travel together: ten permits
			waits = append(waits, s.ask(t, t.Context(), two))
		}
		s.release()
		for i, w := range waits {
			if got := (<-w).yes(t); got != (i < 4) {
				t.Errorf("%d: allowed %v", i, got)
			}
		}
		// Nine are left, and four of the five fit: two, then one and two, of which the last is denied.
		s.wantCalls(t, "all:1 first:1", "all:10", "all:4", "all:6", "all:2", "all:4", "all:2", "all:2")
	})
}

// More than a limit ever grants at once does not travel together, though each of it may.
func TestConvoyIsNoLongerThanItsLimit(t *testing.T) {
	onTheRoad(t, func(t *testing.T, s *convoyTest) {
		four := Demand{Key: "all", Limit: PerHour(10), N: 4}
		waits := []<-chan allowed{s.ask(t, t.Context(), four), s.ask(t, t.Context(), four), s.ask(t, t.Context(), four)}
		s.release()
		for i, want := range []bool{true, true, false} {
			if got := (<-waits[i]).yes(t); got != want {
				t.Errorf("%d: allowed %v, want %v", i, got, want)
			}
		}
		s.wantCalls(t, "all:1 first:1", "all:8", "all:4")
	})
}

// Who leaves the line has asked for nothing; who leaves a convoy may have got what it asked
// for; neither disturbs the others.
func TestLeavingAConvoyHarmsNoOther(t *testing.T) {
	onTheRoad(t, func(t *testing.T, s *convoyTest) {
		inLine, leaveLine := context.WithCancel(t.Context())
		inConvoy, leaveConvoy := context.WithCancel(t.Context())
		gone, flown := s.ask(t, inLine, one("all"), one("gone")), s.ask(t, inConvoy, one("all"), one("flown"))
		stays := s.ask(t, t.Context(), one("all"), one("stays"))
		leaveLine()
		err := (<-gone).err
		wantErr(t, err, context.Canceled)
		if errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("%v, want it to be known that nothing was taken", err)
		}
		gate := make(chan struct{})
		s.f.setIntercept(func(op, key string) outcome { <-gate; return outcome{} })
		s.release()
		synctest.Wait()
		leaveConvoy()
		wantErr(t, (<-flown).err, context.Canceled, ErrUnknownOutcome)
		close(gate)
		if !(<-stays).yes(t) {
			t.Error("denied")
		}
		s.f.setIntercept(nil)
		if n := left(t, s.Client, "all", PerHour(10)); n != 7 {
			t.Errorf("%d left of 10, want 7", n)
		}
		s.wantCalls(t, "all:1 first:1", "all:2 flown:1 stays:1")
	})
}

// A call nobody waits for any more is ended.
func TestConvoyEndsWhenAllHaveLeft(t *testing.T) {
	onTheRoad(t, func(t *testing.T, s *convoyTest) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		waits := []<-chan allowed{s.ask(t, ctx, one("all")), s.ask(t, ctx, one("all"))}
		s.f.setIntercept(func(op, key string) outcome { return outcome{hang: true} })
		s.release()
		for _, w := range waits {
			wantErr(t, (<-w).err, ErrUnavailable, context.DeadlineExceeded)
		}
	})
}

// A call that does not return keeps others waiting for a moment only, whoever else comes and goes.
func TestStuckConvoyIsPassed(t *testing.T) {
	onTheRoad(t, func(t *testing.T, s *convoyTest) {
		start := time.Now()
		time.Sleep(patience / 2)
		asked := time.Now()
		waiting := s.ask(t, t.Context(), one("all"))
		for time.Since(start) < 3*patience {
			if !(<-s.ask(t, t.Context(), Demand{Key: "apart", Limit: PerSecond(1000), N: 1})).yes(t) {
				t.Fatal("denied")
			}
			time.Sleep(patience / 10)
		}
		select {
		case a := <-waiting:
			if !a.yes(t) {
				t.Error("denied")
			}
		default:
			t.Errorf("still waiting after %v", time.Since(asked))
		}
		s.release()
	})
}

func TestPanicStrandsNoConvoy(t *testing.T) {
	onTheRoad(t, func(t *testing.T, s *convoyTest) {
		waits := []<-chan allowed{s.ask(t, t.Context(), one("all")), s.ask(t, t.Context(), one("all"))}
		s.f.setIntercept(func(op, key string) outcome { panic("out of cheese") })
		s.release()
		for _, w := range waits {
			err := (<-w).err
			wantErr(t, err, ErrUnknownOutcome)
			if !strings.Contains(err.Error(), "panicked: out of cheese") {
				t.Errorf("%v: want the panic", err)
			}
		}
		synctest.Wait() // until the convoy has landed
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a panic of a lone call was swallowed")
				}
			}()
			_, _ = s.AllowAll(t.Context(), one("all"))
		}()
		s.f.setIntercept(nil)
	})
}

func TestCloseEndsTheConvoys(t *testing.T) {
	onTheRoad(t, func(t *testing.T, s *convoyTest) {
		w := s.ask(t, t.Context(), one("all"))
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		s.release()
		wantErr(t, (<-w).err, ErrClosed)
	})
}

// However calls travel, all sums are exact, and every call is granted as a whole.
func TestConvoysAreExact(t *testing.T) {
	f := newRoad()
	c := newTestClient(t, f)
	keys := []string{"a", "b", "c", "d"}
	limit := PerHour(600)
	var mu sync.Mutex
	granted := map[string]int{}
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for n := range 60 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				if n%7 == 0 {
					cancel()
				}
				demands := []Demand{}
				for _, i := range rand.Perm(len(keys))[:1+rand.N(3)] {
					demands = append(demands, Demand{Key: keys[i], Limit: limit, N: rand.N(3)})
				}
				results, err := c.AllowAll(ctx, demands...)
				cancel()
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				mu.Lock()
				for i, r := range results {
					if r.Allowed != results[0].Allowed || r.Allowed && r.Granted != demands[i].N || !r.Allowed && r.Granted != 0 {
						t.Errorf("%+v of %+v", results, demands)
					}
					granted[demands[i].Key] += r.Granted
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, key := range keys {
		if n := left(t, c, key, limit); granted[key]+n != 600 {
			t.Errorf("%s: %d granted and %d left of 600", key, granted[key], n)
		}
	}
	if err := c.Close(); err != nil { // which waits for all that is under way
		t.Error(err)
	}
	c.convoys.mu.Lock()
	defer c.convoys.mu.Unlock()
	if len(c.convoys.busy) != 0 || len(c.convoys.queue) != 0 {
		t.Errorf("busy %v, %d wait", c.convoys.busy, len(c.convoys.queue))
	}
}

// spoilt refuses what is over the key "spoilt", as a store does whose value there is not coord's.
type spoilt struct{ *road }

func (f spoilt) TakeAll(ctx context.Context, demands []driver.Demand) ([]driver.Taken, error) {
	if slices.ContainsFunc(demands, func(d driver.Demand) bool { return d.Key == "spoilt" }) {
		return nil, driver.ErrCorrupt
	}
	return f.road.TakeAll(ctx, demands)
}

// What the store refuses one of them it does not refuse the others.
func TestRefusalHarmsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRoad()
		s := &convoyTest{Client: newTestClient(t, spoilt{f}), f: f}
		s.hold(t)
		var waits []<-chan allowed
		for _, user := range []string{"a", "b", "spoilt", "c"} {
			waits = append(waits, s.ask(t, t.Context(), one(user), one("all")))
		}
		s.release()
		for i, w := range waits {
			if a := <-w; i == 2 {
				wantErr(t, a.err, ErrCorrupt)
			} else if !a.yes(t) {
				t.Errorf("%d: denied", i)
			}
		}
		s.wg.Wait()
		if n := left(t, s.Client, "all", PerHour(10)); n != 6 {
			t.Errorf("%d left of 10, want 6", n)
		}
	})
}

// Who asks for something that stood in the way of another is denied with it, whatever else it asks for: what is
// left of a hot limit costs a few calls, and not two for each who wants it.
func TestConvoyIsDeniedByWhatAllWant(t *testing.T) {
	onTheRoad(t, func(t *testing.T, s *convoyTest) {
		hot := Demand{Key: "hot", Limit: PerHour(1000), N: 1}
		must[[]Result](t)(s.AllowAll(t.Context(), Demand{Key: "hot", Limit: hot.Limit, N: 998}))
		meets := Demand{Key: "all", Limit: PerHour(10)} // what is under way
		var waits []<-chan allowed
		for i := range 40 {
			waits = append(waits, s.ask(t, t.Context(), one(fmt.Sprint("u", i)), hot, meets))
		}
		before := len(s.f.calls)
		s.release()
		for i, w := range waits {
			if a := <-w; a.err != nil || a.results[1].Allowed != (i < 2) {
				t.Errorf("%d: %+v", i, a)
			} else if i >= 2 && a.results[1].RetryAfter <= 0 {
				t.Errorf("%d: %+v, want to be told when to come again", i, a.results)
			}
		}
		if n := len(s.f.calls) - before; n > 10 {
			t.Errorf("%d calls", n)
		}
	})
}
