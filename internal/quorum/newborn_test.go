package quorum_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// onNewServers runs do, in fake time, with a client of three servers that have just started and take 10 ms to answer.
func onNewServers(t *testing.T, do func(x *trial, c *coord.Client)) {
	t.Helper()
	inBubble(t, func(x *trial) {
		for _, s := range x.servers {
			s.restart()
			s.delay.Store(int64(10 * time.Millisecond))
		}
		c, err := coord.New(x.client().Backend, coord.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			x.t.Fatal(err)
		}
		do(x, c)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		for i, s := range x.servers {
			if id := s.holder("k"); id != "" {
				t.Errorf("%q is left at server %d", id, i)
			}
		}
	})
}

// wantNotYet wants of err that it says why and when, once, and nothing that was not.
func wantNotYet(t *testing.T, err error, after time.Duration) {
	t.Helper()
	var failed *coord.Error
	if !errors.Is(err, coord.ErrUnavailable) || errors.Is(err, coord.ErrUnknownOutcome) || errors.Is(err, coord.ErrLocked) || !errors.As(err, &failed) {
		t.Fatalf("%v: want ErrUnavailable, and neither ErrLocked nor an unknown outcome", err)
	}
	if failed.RetryAfter > after || failed.RetryAfter < after-time.Second {
		t.Errorf("retry after %v, want about %v", failed.RetryAfter, after)
	}
	if text := err.Error(); strings.Count(text, "do not count") != 1 || !strings.Contains(text, "retry after") {
		t.Errorf("%v: want once that grants do not count, and until when", err)
	}
}

// A wait whose bound is longer than the time after which new servers grant has the lock then.
func TestLockWaitsForNewServers(t *testing.T) {
	onNewServers(t, func(x *trial, c *coord.Client) {
		began := time.Now()
		l, err := c.Lock(x.t.Context(), "k", coord.WaitAtMost(90*time.Second))
		if err != nil {
			x.t.Fatal(err)
		}
		if took := time.Since(began); took < time.Minute-10*time.Millisecond || took > time.Minute+time.Second {
			t.Errorf("granted after %v, want a minute", took)
		}
		if err := l.Unlock(x.t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second) // until the last member has it, too
	})
}

// A wait that is over before, and a try, fail at once, and say when the servers grant.
func TestNewServersRefuseAtOnce(t *testing.T) {
	for name, lock := range map[string]func(ctx context.Context, c *coord.Client) error{
		"TryLock": func(ctx context.Context, c *coord.Client) error { _, err := c.TryLock(ctx, "k"); return err },
		"WaitAtMost(30s)": func(ctx context.Context, c *coord.Client) error {
			_, err := c.Lock(ctx, "k", coord.WaitAtMost(30*time.Second))
			return err
		},
		"deadline": func(ctx context.Context, c *coord.Client) error {
			ctx, cancel := context.WithTimeout(ctx, 59*time.Second)
			defer cancel()
			_, err := c.Lock(ctx, "k")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			onNewServers(t, func(x *trial, c *coord.Client) {
				began := time.Now()
				wantNotYet(x.t, lock(x.t.Context(), c), time.Minute)
				if took := time.Since(began); took > time.Second {
					t.Errorf("it took %v, want that it fails at once", took)
				}
			})
		})
	}
}

// A wait for new servers that ends before is no wait for another holder, and leaves nothing.
func TestWaitForNewServersEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(x *trial, cancel func()) // after 40 s
		want error
		took time.Duration
	}{
		"cancelled": {func(_ *trial, cancel func()) { cancel() }, context.Canceled, 40 * time.Second},
		"down until its deadline": {func(x *trial, _ func()) {
			for _, s := range x.servers {
				s.setDown(true)
			}
		}, context.DeadlineExceeded, 65 * time.Second},
		"started again": {func(x *trial, _ func()) {
			for _, s := range x.servers {
				s.restart()
			}
		}, coord.ErrUnavailable, 42 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			onNewServers(t, func(x *trial, c *coord.Client) {
				ctx, cancel := context.WithTimeout(x.t.Context(), 65*time.Second)
				defer cancel()
				began := time.Now()
				time.AfterFunc(40*time.Second, func() { tt.end(x, cancel) })
				_, err := c.Lock(ctx, "k")
				if !errors.Is(err, tt.want) || errors.Is(err, driver.ErrLocked) {
					t.Errorf("%v, want %v, and not ErrLocked", err, tt.want)
				}
				if took := time.Since(began); took > tt.took+50*time.Millisecond {
					t.Errorf("it took %v, want %v", took, tt.took)
				}
				for _, s := range x.servers {
					s.setDown(false)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
			})
		})
	}
}

// late is a way to a member on which an attempt arrives a second after its connection was reset.
type late struct{ *link }

func (l late) TryLock(_ context.Context, key string, r driver.Request) (driver.Grant, error) {
	time.AfterFunc(time.Second, func() { _, _ = l.link.TryLock(context.Background(), key, r) })
	return driver.Grant{}, errors.New("connection reset")
}

// An attempt that may yet arrive at a member is not said to have left nothing, though the others, which are new, have given it
// back, and so has that one.
func TestLateAttemptIsNoCertainFailure(t *testing.T) {
	inBubble(t, func(x *trial) {
		for _, s := range x.servers[:2] {
			s.restart()
		}
		b := quorumOf(x.t, &link{s: x.servers[0]}, &link{s: x.servers[1]}, late{&link{s: x.servers[2]}})
		defer b.Close()
		_, err := b.TryLock(x.t.Context(), "k", x.request(time.Minute))
		if err == nil || driver.Definite(err) {
			t.Errorf("%v: want an outcome that is not known", err)
		}
		time.Sleep(2 * time.Second)
		if x.servers[2].holder("k") == "" {
			t.Error("the attempt has not arrived: the test shows nothing")
		}
	})
}
