package coord

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// stubborn is a store with calls that do not end with their context. They end with Close, or not even then.
type stubborn struct {
	*fakeLimits
	heedsClose bool
	once       sync.Once
	end        chan struct{}
}

func (s *stubborn) Close() error {
	if s.heedsClose {
		s.release()
	}
	return s.fakeLimits.Close()
}

func (s *stubborn) release() { s.once.Do(func() { close(s.end) }) }

// stuckIn has every call of op wait for the end.
func (s *stubborn) stuckIn(op string) {
	s.setIntercept(func(now, _ string) outcome {
		if now == op {
			<-s.end
		}
		return outcome{}
	})
}

// shared makes two requests for one limit: the second is made in a goroutine of the client.
func shared(t *testing.T, call func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	var callers sync.WaitGroup
	for range 2 {
		callers.Go(func() { call(ctx) })
	}
	time.Sleep(2 * time.Second)
	cancel()
	t.Cleanup(callers.Wait)
}

// Close ends in time whatever the driver does: a call that heeds neither its context nor Close is left behind.
func TestCloseWithADriverThatIsStuck(t *testing.T) {
	for name, tt := range map[string]struct {
		op      string
		begin   func(t *testing.T, s *stubborn, c *Client)
		callers bool // the call is made in the goroutine of its caller
	}{
		"Take for Allow": {"take", func(t *testing.T, s *stubborn, c *Client) {
			s.stuckIn("take")
			shared(t, func(ctx context.Context) { _, _ = c.Allow(ctx, "k", ten) })
		}, false},
		"Take for Wait": {"take", func(t *testing.T, s *stubborn, c *Client) {
			s.stuckIn("take")
			shared(t, func(ctx context.Context) { _ = c.Wait(ctx, "k", ten) })
		}, true},
		"Refund at Close": {"refund", func(t *testing.T, s *stubborn, c *Client) {
			hoard(t, c, leasing["sliding-window"])
			s.stuckIn("refund")
		}, false},
		"Unlock at Close": {"unlock", func(t *testing.T, s *stubborn, c *Client) {
			for _, key := range []string{"a", "b", "c"} {
				must[*Lock](t)(c.Lock(t.Context(), key))
			}
			s.stuckIn("unlock")
		}, false},
		"Renew": {"renew", func(t *testing.T, s *stubborn, c *Client) {
			must[*Lock](t)(c.Lock(t.Context(), "k", TTL(time.Second)))
			s.stuckIn("renew")
			time.Sleep(500 * time.Millisecond)
		}, false},
		"Unlock of an orphan": {"unlock", func(t *testing.T, s *stubborn, c *Client) {
			s.setIntercept(func(string, string) outcome { return outcome{after: errWire} })
			if _, err := c.TryLock(t.Context(), "k", TTL(time.Hour)); err == nil {
				t.Fatal("no error without an answer")
			}
			s.stuckIn("unlock")
			time.Sleep(time.Second)
		}, false},
	} {
		for heeds, when := range map[bool]string{true: "until Close", false: "for ever"} {
			t.Run(name+" "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &stubborn{fakeLimits: newFakeLimits(), heedsClose: heeds, end: make(chan struct{})}
					c := must[*Client](t)(New(s, WithPermitLease(PermitLease{}), WithLogger(slog.New(slog.DiscardHandler))))
					tt.begin(t, s, c)
					t.Cleanup(s.release)
					closed := make(chan error, 1)
					start := time.Now()
					go func() { closed <- c.Close() }()
					select {
					case err := <-closed:
						if left := !heeds && !tt.callers; left {
							wantErr(t, err, ErrUnavailable)
						} else if err != nil {
							t.Errorf("Close: %v, want nil", err)
						}
					case <-time.After(time.Minute):
						t.Errorf("Close did not return within %v while %s is stuck", time.Since(start), tt.op)
						s.release()
						<-closed
					}
					if took := time.Since(start); took > 10*time.Second {
						t.Errorf("Close took %v, want a few seconds", took)
					}
				})
			})
		}
	}
}

// crashing is a store whose Close panics, or does not return.
type crashing struct {
	*fakeLimits
	close func()
}

func (c *crashing) Close() error {
	c.close()
	return nil
}

func TestCloseOfABackendThatDoesNotClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		c := must[*Client](t)(New(&crashing{newFakeLimits(), func() { <-end }}, WithLogger(slog.New(slog.DiscardHandler))))
		start := time.Now()
		wantErr(t, c.Close(), ErrUnavailable)
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("Close took %v, want a few seconds", took)
		}
		close(end)
	})
	synctest.Test(t, func(t *testing.T) {
		log := &logBuffer{}
		c := must[*Client](t)(New(&crashing{newFakeLimits(), func() { panic("out of cheese") }}, WithLogger(slog.New(slog.NewTextHandler(log, nil)))))
		if err := c.Close(); err == nil || !strings.Contains(err.Error(), "out of cheese") || !strings.Contains(log.String(), "out of cheese") {
			t.Errorf("Close: %v, log: %s", err, log.String())
		}
	})
}
