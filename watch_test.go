package coord

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
)

// shown is a fake store that shows what a test wants.
type shown struct {
	*fakeStore
	at     sync.Mutex
	holder driver.Holder
	err    error
	looks  []time.Time
}

func (f *shown) Info() driver.Info { return claiming(f.fakeStore, driver.Inspect) }

func newShown() *shown { return &shown{fakeStore: newFake(), err: driver.ErrNotHeld} }

func (s *shown) Inspect(ctx context.Context, _ string) (driver.Holder, error) {
	s.at.Lock()
	defer s.at.Unlock()
	s.looks = append(s.looks, time.Now())
	return s.holder, s.err
}

// show sets what the next looks see. A token of zero is a vacancy.
func (s *shown) show(token int64, ttl time.Duration, err error) {
	s.at.Lock()
	defer s.at.Unlock()
	s.holder, s.err = driver.Holder{}, err
	if token > 0 {
		s.holder = driver.NewHolder(driver.FormatID(fmt.Sprint("n", token), 1, time.Unix(token, 0), [16]byte{byte(token)}), token, ttl)
	}
}

// watching notes what a Watch gives, in words.
type watching struct {
	mu   sync.Mutex
	seen []string
	errs []error
	done chan struct{}
}

func watch(ctx context.Context, c *Client) *watching {
	w := &watching{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for h, err := range c.Watch(ctx, "k") {
			w.mu.Lock()
			switch {
			case err == nil:
				w.seen = append(w.seen, h.Name)
			case errors.Is(err, ErrNotHeld):
				w.seen = append(w.seen, "vacancy")
			default:
				w.seen, w.errs = append(w.seen, "error"), append(w.errs, err)
			}
			w.mu.Unlock()
		}
	}()
	return w
}

func (w *watching) want(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.seen, want) {
		t.Errorf("it saw %v, want %v", w.seen, want)
	}
}

const period = 5 * time.Second // of a TTL of 30 s

// Every change is told once, vacancies too.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShown()
		c := newTestClient(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		w := watch(ctx, c)
		want := []string{"vacancy"}
		w.want(t, want...)
		for _, next := range []struct {
			token int64
			err   error
			want  []string
		}{
			{0, driver.ErrNotHeld, nil},
			{1, nil, []string{"n1"}},
			{1, nil, nil},
			{2, nil, []string{"n2"}},
			{0, driver.ErrNotHeld, []string{"vacancy"}},
			{0, driver.ErrNotHeld, nil},
			{3, nil, []string{"n3"}},
			{0, errWire, []string{"error"}},
			{0, errWire, nil},
			{0, driver.ErrCorrupt, nil}, // still no answer
			{3, nil, []string{"n3"}},
			{4, nil, []string{"n4"}},
		} {
			s.show(next.token, 30*time.Second, next.err)
			time.Sleep(period)
			want = append(want, next.want...)
			w.want(t, want...)
		}
		wantErr(t, w.errs[0], ErrUnavailable, errWire)
		cancel()
		<-w.done
		w.want(t, append(want, "error")...)
		wantErr(t, w.errs[1], context.Canceled)
	})
}

// A key that is kept taken has no holder.
func TestWatchOfAKeyThatIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShown()
		ctx, cancel := context.WithCancel(t.Context())
		s.show(1, 30*time.Second, nil)
		w := watch(ctx, newTestClient(t, s))
		w.want(t, "n1")
		s.at.Lock()
		s.holder.Released = true
		s.at.Unlock()
		time.Sleep(2 * period)
		w.want(t, "n1", "vacancy")
		cancel()
		<-w.done
	})
}

// It looks once in a third of the lease that it sees, and never more often than every 250 ms.
func TestWatchPeriod(t *testing.T) {
	for ttl, most := range map[time.Duration]time.Duration{
		time.Minute: 5 * time.Second, 9 * time.Second: 3 * time.Second, 300 * time.Millisecond: 250 * time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newShown()
			ctx, cancel := context.WithCancel(t.Context())
			s.show(1, ttl, nil)
			w := watch(ctx, newTestClient(t, s))
			time.Sleep(10 * most)
			// Less of the lease is left now and then: that is no shorter period.
			s.show(1, ttl/2, nil)
			time.Sleep(10 * most)
			s.at.Lock()
			defer s.at.Unlock()
			for i, at := range s.looks[1:] {
				if d := at.Sub(s.looks[i]); d > most || d < most*9/10 {
					t.Errorf("look %d of a lease of %v came after %v", i+1, ttl, d)
				}
			}
			cancel()
			<-w.done
		})
	}
}

// What can never succeed ends it, and so does the end of the loop.
func TestWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShown()
		c := newTestClient(t, s)
		ended := func(ctx context.Context, c *Client, key string) (n int, last error) {
			for _, err := range c.Watch(ctx, key) {
				n, last = n+1, err
			}
			return n, last
		}
		gone, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		cancel(enough)
		before := len(s.looks)
		for name, tc := range map[string]struct {
			ctx  context.Context
			c    *Client
			key  string
			want error
		}{
			"no key":        {t.Context(), c, "", ErrInvalid},
			"no Inspect":    {t.Context(), newTestClient(t, newFake()), "k", ErrUnsupported},
			"ended context": {gone, c, "k", enough},
		} {
			n, err := ended(tc.ctx, tc.c, tc.key)
			if wantErr(t, err, tc.want); n != 1 {
				t.Errorf("%s: %d times", name, n)
			}
		}
		if n := len(s.looks) - before; n != 0 {
			t.Errorf("%d looks", n)
		}
		for _, err := range c.Watch(t.Context(), "k") {
			wantErr(t, err, ErrNotHeld)
			break
		}
		w := watch(t.Context(), c)
		w.want(t, "vacancy")
		began := time.Now()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		<-w.done
		w.want(t, "vacancy", "error")
		if wantErr(t, w.errs[0], ErrClosed); time.Since(began) > 3*time.Second {
			t.Errorf("it ended %v after Close", time.Since(began))
		}
	})
}

// A look that hangs is an outage, and not the end of ctx.
func TestWatchHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &hanging{newShown()}
		ctx, cancel := context.WithCancel(t.Context())
		w := watch(ctx, newTestClient(t, s))
		time.Sleep(time.Minute)
		w.want(t, "error")
		wantErr(t, w.errs[0], ErrUnavailable)
		cancel()
		<-w.done
		w.want(t, "error", "error")
	})
}

type hanging struct{ *shown }

func (f *hanging) Info() driver.Info { return claiming(f.shown, driver.Inspect) }

func (h *hanging) Inspect(ctx context.Context, _ string) (driver.Holder, error) {
	<-ctx.Done()
	return driver.Holder{}, ctx.Err()
}
