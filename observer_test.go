package coord

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/observe"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/hold"
)

// eventLog writes down what an observer is told, one line for each event.
type eventLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *eventLog) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// take gives the lines since the last time.
func (l *eventLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return lines
}

func (l *eventLog) want(t *testing.T, want ...string) {
	t.Helper()
	if got := l.take(); !slices.Equal(got, want) {
		t.Errorf("events:\n\t%s\nwant:\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// locks is an observer of locks.
func (l *eventLog) locks() observe.Observer {
	return observe.Observer{
		WaitBegan: func(_ context.Context, e observe.WaitBegan) { l.add("wait %s behind own %v", e.Key, e.HeldBy != "") },
		WaitEnded: func(_ context.Context, e observe.WaitEnded) { l.add("waited %s %v %s", e.Key, e.Waited, e.Outcome) },
		Acquired: func(_ context.Context, e observe.Acquired) {
			l.add("acquired %s token %d %v %s ttl %v", e.Key, e.Token, e.Waited, e.Way, e.TTL)
		},
		Reentered: func(_ context.Context, e observe.Reentered) {
			l.add("reentered %s token %d depth %d", e.Key, e.Token, e.Depth)
		},
		Refused: func(_ context.Context, e observe.Refused) { l.add("refused %s %v %s", e.Key, e.Waited, e.Outcome) },
		Renewed: func(_ context.Context, e observe.Renewed) { l.add("renewed %s ttl %v", e.Key, e.TTL) },
		RenewFailed: func(_ context.Context, e observe.RenewFailed) {
			l.add("renewal failed %s left %v: %v", e.Key, e.Left, e.Err)
		},
		Lost: func(_ context.Context, e observe.Lost) {
			l.add("lost %s token %d held %v %s", e.Key, e.Token, e.Held, e.Reason)
		},
		Released: func(_ context.Context, e observe.Released) {
			l.add("released %s token %d held %v", e.Key, e.Token, e.Held)
		},
	}
}

func TestObserverOfLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(eventLog)
		f := newFake()
		c := newTestClient(t, f, WithPrefix("p/"), WithObserver(log.locks()), WithLockDefaults(TTL(30*time.Second)))
		ctx := WithOwner(t.Context())
		l := must[*Lock](t)(c.Lock(ctx, "k"))
		again := must[*Lock](t)(c.TryLock(ctx, "k"))
		log.want(t, "acquired k token 1024 0s free ttl 30s", "reentered k token 1024 depth 2")

		_, err := c.TryLock(t.Context(), "k")
		wantErr(t, err, ErrLocked)
		log.want(t, "refused k 0s refused")

		_, err = c.Lock(t.Context(), "k", WaitAtMost(2*time.Second))
		wantErr(t, err, context.DeadlineExceeded)
		log.want(t, "wait k behind own true", "waited k 2s timed_out", "refused k 2s timed_out")

		gone, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err = c.Lock(gone, "k")
		wantErr(t, err, context.Canceled)
		log.want(t, "wait k behind own true", "waited k 1s cancelled", "refused k 1s cancelled")

		time.Sleep(8 * time.Second) // 11 s in all: one renewal
		synctest.Wait()
		log.want(t, "renewed k ttl 30s")

		waiter := make(chan *Lock)
		go func() { waiter <- must[*Lock](t)(c.Lock(context.Background(), "k", NoRenew())) }()
		synctest.Wait()
		log.want(t, "wait k behind own true")
		if err := again.Unlock(ctx); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		log.want(t)
		if err := l.Unlock(ctx); err != nil {
			t.Error(err)
		}
		next := <-waiter
		log.want(t, "released k token 1024 held 12s", "waited k 1s ok", "acquired k token 2048 1s local ttl 30s")
		if err := next.Unlock(ctx); err != nil {
			t.Error(err)
		}
		log.want(t, "released k token 2048 held 0s")

		_, err = c.Lock(t.Context(), "")
		wantErr(t, err, ErrInvalid)
		log.want(t, "refused  0s invalid")
	})
}

// Another client's hold is waited for at the store.
func TestObserverOfPolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(eventLog)
		f := newFake()
		other := must[*Lock](t)(newTestClient(t, f).Lock(t.Context(), "k"))
		time.AfterFunc(time.Second, func() { _ = other.Unlock(context.Background()) })
		c := newTestClient(t, f, WithObserver(log.locks()))
		must[*Lock](t)(c.Lock(t.Context(), "k"))
		got := log.take()
		if len(got) != 3 || got[0] != "wait k behind own false" || !strings.HasPrefix(got[1], "waited k 1.0") || !strings.Contains(got[2], "polled") {
			t.Errorf("%q", got)
		}
	})
}

func TestObserverOfLosses(t *testing.T) {
	ended := func(t *testing.T, c *Client, opts ...LockOption) *Lock {
		l := must[*Lock](t)(c.Lock(t.Context(), "k", append(opts, TTL(3*time.Second))...))
		<-l.Done()
		synctest.Wait()
		return l
	}
	for name, tc := range map[string]struct {
		run  func(t *testing.T, f *fakeStore, c *Client) *Lock
		want []string
	}{
		"expired": {func(t *testing.T, f *fakeStore, c *Client) *Lock {
			return ended(t, c, NoRenew())
		}, []string{"lost k token 1024 held 2.97s expired"}},
		"max hold": {func(t *testing.T, f *fakeStore, c *Client) *Lock {
			return ended(t, c, MaxHold(time.Second))
		}, []string{"lost k token 1024 held 1s max_hold"}},
		"at a renewal": {func(t *testing.T, f *fakeStore, c *Client) *Lock {
			time.AfterFunc(500*time.Millisecond, func() {
				f.mu.Lock()
				defer f.mu.Unlock()
				delete(f.leases, "k")
			})
			return ended(t, c)
		}, []string{"lost k token 1024 held 1s revoked"}},
		"after failed renewals": {func(t *testing.T, f *fakeStore, c *Client) *Lock {
			f.setIntercept(func(op, _ string) outcome {
				if op == "renew" {
					return outcome{hang: true}
				}
				return outcome{}
			})
			return ended(t, c)
		}, []string{"renewal failed k left 970ms: context deadline exceeded", "lost k token 1024 held 2.97s expired"}},
		"at Unlock": {func(t *testing.T, f *fakeStore, c *Client) *Lock {
			l := must[*Lock](t)(c.Lock(t.Context(), "k", TTL(3*time.Second)))
			f.mu.Lock()
			delete(f.leases, "k")
			f.mu.Unlock()
			return l
		}, nil},
		"closed": {func(t *testing.T, f *fakeStore, c *Client) *Lock {
			l := must[*Lock](t)(c.Lock(t.Context(), "k", TTL(3*time.Second)))
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			return l
		}, []string{"lost k token 1024 held 0s closed"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := new(eventLog)
				f := newFake()
				c := newTestClient(t, f, WithObserver(log.locks()))
				l := tc.run(t, f, c)
				got := log.take()
				if len(got) == 0 || !slices.Equal(got[1:], tc.want) {
					t.Errorf("after acquired: %q, want %q", got, tc.want)
				}
				wantErr(t, l.Unlock(t.Context()), ErrLost)
				if name == "at Unlock" {
					log.want(t, "lost k token 1024 held 0s revoked")
				}
				log.want(t)
			})
		})
	}
}

// Done has closed, and nothing was sent, when a loss is told.
func TestLossIsToldBeforeTheRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var lock atomic.Pointer[Lock]
		told := false
		c := newTestClient(t, f, WithObserver(observe.Observer{Lost: func(ctx context.Context, e observe.Lost) {
			told = true
			if !isClosed(lock.Load().Done()) {
				t.Error("Done is open")
			}
			if n := f.count("unlock"); n != 0 {
				t.Errorf("%d releases were sent before", n)
			}
		}}))
		lock.Store(must[*Lock](t)(c.Lock(t.Context(), "k", TTL(time.Second), MaxHold(100*time.Millisecond))))
		time.Sleep(time.Second)
		synctest.Wait()
		if !told || f.count("unlock") == 0 {
			t.Errorf("told %v, %d releases", told, f.count("unlock"))
		}
	})
}

// A loss is told once, and has been told when Unlock says that there was one, even if
// whoever found it has got no further than to close Done.
func TestLossIsToldBeforeUnlockSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(eventLog)
		c := newTestClient(t, newFake(), WithObserver(log.locks()))
		l := must[*Lock](t)(c.Lock(t.Context(), "k", TTL(3*time.Second)))
		log.want(t, "acquired k token 1024 0s free ttl 3s")
		goOn := make(chan struct{})
		l.h.t.Watch(&hold.Watcher{Cancel: func(error) { <-goOn }}) // before observers are told
		var pushing sync.WaitGroup
		pushing.Go(func() { c.locks.LossPushed("k", l.h.t.ID(), errWire) })
		<-l.Done()
		wantErr(t, l.Unlock(t.Context()), ErrLost)
		log.want(t, "lost k token 1024 held 0s revoked")
		close(goOn)
		pushing.Wait()
		log.want(t)
	})
}

// An observer that is told of a loss may lock under the context that it is given, also when a re-entry found the loss.
func TestObserverOfALossLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *Client
		var told error
		c = newTestClient(t, newFake(), WithObserver(observe.Observer{Lost: func(ctx context.Context, _ observe.Lost) {
			var l *Lock
			if l, told = c.TryLock(ctx, "other"); told == nil {
				told = l.Unlock(ctx)
			}
		}}))
		ctx := WithOwner(t.Context())
		l := must[*Lock](t)(c.Lock(ctx, "k", TTL(time.Second)))
		told = errors.New("nobody was told")
		c.clock.Read = func() clock.Instant { return c.clock.At(time.Now()).Add(2 * time.Second) } // the scheduler has not looked
		_, err := c.Lock(ctx, "k")
		wantErr(t, err, ErrLost)
		if told != nil {
			t.Errorf("in the observer: %v", told)
		}
		wantErr(t, l.Unlock(ctx), ErrLost)
	})
}

func TestObserverOfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type spanKey struct{}
		log := new(eventLog)
		depth := func(ctx context.Context) int { n, _ := ctx.Value(spanKey{}).(int); return n }
		o := observe.Observer{
			CallBegan: func(ctx context.Context, c observe.Call) context.Context {
				log.add("%d %s %s", depth(ctx), c.Op, c.Key)
				return context.WithValue(ctx, spanKey{}, depth(ctx)+1)
			},
			CallEnded: func(ctx context.Context, c observe.CallEnded) {
				log.add("%d %s %s %s panicked %v", depth(ctx), c.Op, c.Key, c.Outcome, c.Panicked)
			},
			Acquired: func(ctx context.Context, e observe.Acquired) { log.add("%d acquired", depth(ctx)) },
			Lost:     func(ctx context.Context, e observe.Lost) { log.add("%d lost", depth(ctx)) },
		}
		f := newFakeLimits()
		c := newTestClient(t, f, WithObserver(o))
		// A Locker that embeds a Client is seen too.
		err := Do(t.Context(), struct{ *Client }{c}, "k", func(ctx context.Context) error {
			log.add("%d inside", depth(ctx))
			return errors.New("of fn")
		})
		if err == nil {
			t.Error("no error")
		}
		log.want(t, "0 do k", "1 lock k", "2 acquired", "2 lock k ok panicked false", "1 inside", "1 do k error panicked false")

		// Lost is told in the caller's context: its span goes on, Lock's has ended.
		err = Do(t.Context(), c, "k", func(ctx context.Context) error {
			<-ctx.Done()
			synctest.Wait()
			return nil
		}, MaxHold(time.Second))
		wantErr(t, err, ErrMaxHold)
		log.want(t, "0 do k", "1 lock k", "2 acquired", "2 lock k ok panicked false", "1 lost", "1 do k lost panicked false")

		l := must[*Lock](t)(c.Lock(t.Context(), "k"))
		log.take()
		ran, err := TryDo(t.Context(), c, "k", func(context.Context) error { return nil })
		if ran || err != nil {
			t.Error(ran, err)
		}
		log.want(t, "0 trydo k", "1 trylock k", "2 trylock k refused panicked false", "1 trydo k refused panicked false")
		if err := l.Unlock(t.Context()); err != nil {
			t.Error(err)
		}

		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic of fn was swallowed")
				}
			}()
			_, _ = TryDo(t.Context(), c, "k", func(context.Context) error { panic("of fn") })
		}()
		if got := log.take(); got[len(got)-1] != "1 trydo k error panicked true" {
			t.Errorf("%q", got)
		}
		if err := c.WaitN(t.Context(), "l", ten, 3); err != nil {
			t.Error(err)
		}
		log.want(t, "0 wait l", "1 wait l ok panicked false")
	})
}

func (l *eventLog) limits() observe.Observer {
	line := func(what string) func(context.Context, observe.Decision) {
		return func(_ context.Context, e observe.Decision) {
			l.add("%s %s %s %v: %d of %d, %d left, retry %v, delay %v, cached %v, took %v", what, e.Op, e.Key, e.Limit, e.Granted, e.Asked, e.Remaining, e.RetryAfter, e.Delay, e.Cached, e.Took)
		}
	}
	return observe.Observer{Allowed: line("allowed"), Denied: line("denied"), Degraded: line("degraded")}
}

func TestObserverOfLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(eventLog)
		f := newFakeMulti()
		c := newTestClient(t, f, WithObserver(log.limits()), WithFailurePolicy(FailOpen))
		must[Result](t)(c.AllowN(t.Context(), "k", ten, 4))
		must[Result](t)(c.AllowAtMost(t.Context(), "k", ten, 40))
		must[Result](t)(c.Peek(t.Context(), "k", ten))
		must[Result](t)(c.Allow(t.Context(), "k", ten))
		must[Result](t)(c.Allow(t.Context(), "k", ten))
		log.want(t,
			"allowed allow k 10/1s: 4 of 4, 6 left, retry 0s, delay 0s, cached false, took 0s",
			"allowed allow k 10/1s: 6 of 10, 0 left, retry 0s, delay 0s, cached false, took 0s",
			"denied allow k 10/1s: 0 of 1, 0 left, retry 1.01s, delay 0s, cached false, took 0s",
			"denied allow k 10/1s: 0 of 1, 0 left, retry 1.01s, delay 0s, cached true, took 0s")

		if err := c.Wait(t.Context(), "k", ten); err != nil {
			t.Error(err)
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		wantErr(t, c.WaitN(soon, "k", ten, 10), ErrLimited)
		log.want(t,
			"allowed wait k 10/1s: 1 of 1, -1 left, retry 0s, delay 0s, cached false, took 1.01s",
			"denied wait k 10/1s: 0 of 10, -1 left, retry 1.01s, delay 0s, cached false, took 0s")

		bucket := Limit{Rate: 1, Per: time.Second, Burst: 1}
		must[*Reservation](t)(c.Reserve(t.Context(), "b", bucket, 1))
		must[*Reservation](t)(c.Reserve(t.Context(), "b", bucket, 1))
		log.want(t,
			"allowed reserve b 1/1s burst=1: 1 of 1, -1 left, retry 0s, delay 0s, cached false, took 0s",
			"allowed reserve b 1/1s burst=1: 1 of 1, -1 left, retry 0s, delay 1s, cached false, took 0s")

		must[[]Result](t)(c.AllowAll(t.Context(), Demand{Key: "m", Limit: ten, N: 2}, Demand{Key: "n", Limit: ten, N: 1}))
		must[[]Result](t)(c.AllowAll(t.Context(), Demand{Key: "m", Limit: ten, N: 9}, Demand{Key: "n", Limit: ten, N: 1}))
		log.want(t,
			"allowed allowall m 10/1s: 2 of 2, 8 left, retry 0s, delay 0s, cached false, took 0s",
			"allowed allowall n 10/1s: 1 of 1, 9 left, retry 0s, delay 0s, cached false, took 0s",
			"denied allowall m 10/1s: 0 of 9, 8 left, retry 1.01s, delay 0s, cached false, took 0s")

		f.setIntercept(func(string, string) outcome { return outcome{before: errWire} })
		must[Result](t)(c.Allow(t.Context(), "new", ten))
		if err := c.Wait(t.Context(), "new", ten); err != nil {
			t.Error(err)
		}
		log.want(t,
			"degraded allow new 10/1s: 1 of 1, 0 left, retry 0s, delay 0s, cached false, took 0s",
			"degraded wait new 10/1s: 1 of 1, -1 left, retry 0s, delay 0s, cached false, took 0s")
		if _, err := c.AllowN(t.Context(), "new", ten, -1); err == nil {
			t.Error("no error")
		}
		log.want(t)
	})
}

func TestObserverOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(eventLog)
		f := newFakeMulti()
		c := newTestClient(t, f, WithPrefix("p/"), WithObserver(observe.Observer{StoreCalled: func(_ context.Context, e observe.StoreCall) {
			log.add("%s %s %s %v failed %v", e.Backend, e.Op, e.Key, e.Took, e.Failed())
		}}))
		f.setIntercept(func(string, string) outcome { time.Sleep(time.Millisecond); return outcome{} })
		l := must[*Lock](t)(c.Lock(t.Context(), "k"))
		if err := l.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		must[Result](t)(c.Allow(t.Context(), "k", ten))
		must[[]Result](t)(c.AllowAll(t.Context(), Demand{Key: "k", Limit: ten, N: 1}))
		if err := c.Reset(t.Context(), "k", ten); err != nil {
			t.Error(err)
		}
		log.want(t, "fake trylock k 1ms failed false", "fake unlock k 1ms failed false", "fake take k 1ms failed false",
			"fake takeall  1ms failed false", "fake reset k 1ms failed false")
		f.setIntercept(func(string, string) outcome { return outcome{before: errWire} })
		_, err := c.Allow(t.Context(), "k", ten)
		wantErr(t, err, ErrUnavailable)
		log.want(t, "fake take k 0s failed true")
	})
}

// listedFake lists the keys a and b, a second for each, and then fails with err, if it is set.
type listedFake struct {
	*fakeStore
	err error
}

func (f *listedFake) Info() driver.Info { return claiming(f.fakeStore, driver.List) }

func (f *listedFake) List(_ context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, key := range []string{"a", "b"} {
			time.Sleep(time.Second)
			if !yield(prefix+key, nil) {
				return
			}
		}
		if f.err != nil {
			yield("", f.err)
		}
	}
}

// A List is told of as one call, with the time that the store took: the loop's own time is not in it.
func TestObserverOfList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(eventLog)
		f := &listedFake{fakeStore: newFake()}
		c := newTestClient(t, f, WithPrefix("p/"), WithObserver(observe.Observer{StoreCalled: func(_ context.Context, e observe.StoreCall) {
			log.add("%s %s %v failed %v", e.Op, e.Key, e.Took, e.Failed())
		}}))
		for key := range c.List(t.Context(), "x/") {
			log.add("%s", key)
			time.Sleep(time.Minute)
		}
		log.want(t, "x/a", "x/b", "list x/ 2s failed false")
		for range c.List(t.Context(), "x/") {
			break
		}
		log.want(t, "list x/ 1s failed false")
		f.err = errWire
		for _, err := range c.List(t.Context(), "") {
			if err != nil {
				wantErr(t, err, ErrUnavailable)
			}
		}
		log.want(t, "list  2s failed true")
	})
}

// An observer that panics loses no lock, and is told once for each field.
func TestObserverPanics(t *testing.T) {
	logged := new(logBuffer)
	second := new(eventLog)
	boom := observe.Observer{
		CallBegan: func(context.Context, observe.Call) context.Context { panic("boom") },
		Acquired:  func(context.Context, observe.Acquired) { panic("boom") },
		Released:  func(context.Context, observe.Released) { panic("boom") },
		CallEnded: func(context.Context, observe.CallEnded) { panic("boom") },
	}
	c := newTestClient(t, newFake(), WithLogger(slog.New(slog.NewTextHandler(logged, nil))), WithObserver(boom), WithObserver(second.locks()))
	for range 3 {
		l := must[*Lock](t)(c.Lock(t.Context(), "k"))
		if err := l.Err(); err != nil {
			t.Error(err)
		}
		if err := l.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if n := len(second.take()); n != 6 {
		t.Errorf("the other observer was told of %d events", n)
	}
	if n := strings.Count(logged.String(), "an observer panicked"); n != 4 || !strings.Contains(logged.String(), "boom") {
		t.Errorf("%d lines in the log:\n%s", n, logged.String())
	}
}

// holdEvents checks the order of the events of each hold.
type holdEvents struct {
	t       *testing.T
	mu      sync.Mutex
	held    map[Token]bool // false once it is over
	waiting int
	calls   int
	ends    int
	losses  int
}

func (x *holdEvents) during(e observe.Lock, what string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.held[e.Token] {
		x.t.Errorf("%s of token %d, which is not held", what, e.Token)
	}
}

func (x *holdEvents) end(e observe.Lock, what string) {
	x.during(e, what)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.held[e.Token] = false
	x.ends++
}

func (x *holdEvents) count(n *int, by int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	*n += by
}

func (x *holdEvents) observer() observe.Observer {
	return observe.Observer{
		CallBegan: func(ctx context.Context, _ observe.Call) context.Context { x.count(&x.calls, 1); return ctx },
		CallEnded: func(context.Context, observe.CallEnded) { x.count(&x.calls, -1) },
		WaitBegan: func(context.Context, observe.WaitBegan) { x.count(&x.waiting, 1) },
		WaitEnded: func(context.Context, observe.WaitEnded) { x.count(&x.waiting, -1) },
		Acquired: func(_ context.Context, e observe.Acquired) {
			x.mu.Lock()
			defer x.mu.Unlock()
			if _, known := x.held[e.Token]; known {
				x.t.Errorf("token %d was acquired twice", e.Token)
			}
			x.held[e.Token] = true
		},
		Renewed:     func(_ context.Context, e observe.Renewed) { x.during(e.Lock, "renewal") },
		RenewFailed: func(_ context.Context, e observe.RenewFailed) { x.during(e.Lock, "failed renewal") },
		Lost: func(_ context.Context, e observe.Lost) {
			x.end(e.Lock, "loss")
			x.count(&x.losses, 1)
		},
		Released: func(_ context.Context, e observe.Released) { x.end(e.Lock, "release") },
	}
}

// Owners' goroutines that share an attempt: one acquires, the others re-enter.
func TestObserverOfJointEntry(t *testing.T) {
	log := new(eventLog)
	c := newTestClient(t, newFake(), WithObserver(log.locks()))
	ctx := WithOwner(t.Context())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			l := must[*Lock](t)(c.Lock(ctx, "k"))
			defer l.Unlock(ctx)
		})
	}
	wg.Wait()
	acquired, reentered, released := 0, 0, 0
	for _, line := range log.take() {
		switch word, _, _ := strings.Cut(line, " "); word {
		case "acquired":
			acquired++
		case "reentered":
			reentered++
		case "released":
			released++
		}
	}
	if acquired+reentered != 8 || acquired != released {
		t.Errorf("%d acquired, %d re-entered, %d released", acquired, reentered, released)
	}
}
