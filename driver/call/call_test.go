package call_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/call"
)

var (
	errClosing = errors.New("closed during the call")
	errAnswer  = errors.New("an answer")
	errDown    = errors.New("no server")
)

// inTime runs a test where time is the test's own.
func inTime(t *testing.T, test func(t *testing.T, c *call.Calls)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := call.New(call.Options{ErrClosing: errClosing})
		test(t, c)
		c.Close()
		if !c.Wait(time.Minute) {
			t.Error("something still goes on a minute after the end")
		}
	})
}

// A call gives what the work gives.
func TestInTime(t *testing.T) {
	inTime(t, func(t *testing.T, c *call.Calls) {
		for range 3 {
			v, left, err := call.DoSend(t.Context(), c, func(in *call.Call) (int, error) {
				if !in.Send() || in.Left() {
					t.Error("the caller has left")
				}
				return 1, errAnswer
			}, func(int, error) { t.Error("late") })
			if v != 1 || left || err != errAnswer {
				t.Errorf("%d, %v, %v: want 1 and the answer", v, left, err)
			}
		}
		if v, left, err := call.DoSend(t.Context(), c, func(*call.Call) (string, error) { return "text", nil }, nil); v != "text" || left || err != nil {
			t.Errorf("%q, %v, %v: want the text", v, left, err)
		}
	})
}

// A caller of Do that leaves may have changed the store, unless the work has not begun. Close has an error, also without one of
// the adapter.
func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := call.New(call.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		goOn := make(chan struct{})
		work := func() (int, error) {
			<-goOn
			return 7, nil
		}
		late := make(chan int, 2)
		keep := func(v int, _ error) { late <- v }
		if v, left, err := call.Do(ctx, c, work, keep); v != 0 || !left || err != context.DeadlineExceeded {
			t.Errorf("at the end of ctx: %d, %v, %v: want an unknown outcome", v, left, err)
		}
		time.AfterFunc(time.Second, func() { c.Close() })
		if v, left, err := call.Do(t.Context(), c, work, keep); v != 0 || !left || err == nil || errors.Is(err, driver.ErrNotSent) {
			t.Errorf("at Close: %d, %v, %v: want an unknown outcome", v, left, err)
		}
		close(goOn)
		if a, b := <-late, <-late; a != 7 || b != 7 || !c.Wait(time.Minute) {
			t.Errorf("late: %d, %d", a, b)
		}
	})
}

// ends are the ways in which a caller leaves: each is begun, and its error is then why.
var ends = map[string]struct {
	end func(cancel context.CancelFunc, c *call.Calls)
	why error
}{
	"cancelled": {func(cancel context.CancelFunc, _ *call.Calls) { cancel() }, context.Canceled},
	"deadline":  {func(context.CancelFunc, *call.Calls) {}, context.DeadlineExceeded},
	"closed":    {func(_ context.CancelFunc, c *call.Calls) { c.Close() }, errClosing},
}

// A caller leaves at once. What was not sent then is not sent any more, of what was sent nobody knows, and late gets what
// comes of it.
func TestLeaves(t *testing.T) {
	for name, end := range ends {
		for _, sends := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				inTime(t, func(t *testing.T, c *call.Calls) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					late := make(chan int, 1)
					begun, goOn := make(chan struct{}), make(chan struct{})
					go func() { <-begun; end.end(cancel, c) }()
					start := time.Now()
					_, left, err := call.DoSend(ctx, c, func(in *call.Call) (int, error) {
						if sends && !in.Send() {
							t.Error("nothing may be sent, though somebody waits")
						}
						close(begun)
						<-goOn
						if !in.Left() {
							t.Error("the caller has not left")
						}
						if in.Send() {
							t.Error("something may be sent, though the caller has left")
						}
						return 7, errAnswer
					}, func(v int, err error) {
						if err != errAnswer {
							t.Errorf("late: %v", err)
						}
						late <- v
					})
					if !left || !errors.Is(err, end.why) || errors.Is(err, driver.ErrNotSent) == sends {
						t.Errorf("sent %v: %v, %v: want that it left because of %v", sends, left, err, end.why)
					}
					if sends && err != end.why {
						t.Errorf("%v: want plain %v", err, end.why)
					}
					if took := time.Since(start); took != 0 && took != time.Second {
						t.Errorf("took %v", took)
					}
					close(goOn)
					if v := <-late; v != 7 {
						t.Errorf("late gets %d, want what the work gives", v)
					}
				})
			})
		}
	}
}

// What ends while its caller leaves either gives its result or is late, never both.
func TestEndsWhileItsCallerLeaves(t *testing.T) {
	inTime(t, func(t *testing.T, c *call.Calls) {
		for range 2000 {
			late := make(chan error, 1)
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			v, left, err := call.DoSend(ctx, c, func(in *call.Call) (int, error) {
				in.Send()
				time.Sleep(time.Millisecond)
				return 3, nil
			}, func(_ int, err error) { late <- err })
			cancel()
			synctest.Wait()
			if left != (len(late) == 1) || left == (err == nil) || !left && v != 3 {
				t.Fatalf("%d, %v, %v, late: %d", v, left, err, len(late))
			}
		}
	})
}

// A call that is refused begins nothing.
func TestRefused(t *testing.T) {
	inTime(t, func(t *testing.T, c *call.Calls) {
		do := func(ctx context.Context) error {
			_, left, err := call.DoSend(ctx, c, func(*call.Call) (int, error) {
				t.Error("it begins")
				return 0, nil
			}, func(int, error) { t.Error("late") })
			if left {
				t.Error("it has left")
			}
			return err
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := do(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, driver.ErrNotSent) {
			t.Errorf("after the end of ctx: %v", err)
		}
		if !c.Close() || c.Close() {
			t.Error("Close is to report true once")
		}
		if err := do(ctx); err != driver.ErrClosed {
			t.Errorf("after Close: %v", err)
		}
		if c.Go(func() { t.Error("it runs") }) {
			t.Error("Go after Close")
		}
		if err := c.Pause(t.Context(), time.Second); err != driver.ErrClosed {
			t.Errorf("pause after Close: %v", err)
		}
	})
}

// A call ends when no server can be reached, however long the library waits for one.
func TestDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := call.New(call.Options{ErrClosing: errClosing, Down: func() error {
			if time.Since(start) < time.Second {
				return nil
			}
			return errDown
		}})
		goOn := make(chan struct{})
		_, left, err := call.DoSend(t.Context(), c, func(in *call.Call) (int, error) {
			in.Send()
			<-goOn
			return 0, nil
		}, nil)
		if took := time.Since(start); !left || err != errDown || took < time.Second || took > 1200*time.Millisecond {
			t.Errorf("%v, %v after %v: want the error of a server that is down, after a second", left, err, took)
		}
		close(goOn)
	})
}

// Wait waits for what goes on, and no longer than it is told to.
func TestWait(t *testing.T) {
	inTime(t, func(t *testing.T, c *call.Calls) {
		c.Go(func() { time.Sleep(time.Second) })
		ended := false
		go call.DoSend(t.Context(), c, func(*call.Call) (int, error) {
			time.Sleep(2 * time.Second)
			return 0, nil
		}, func(int, error) { ended = true })
		synctest.Wait()
		c.Close()
		if c.Wait(time.Second) {
			t.Error("all is over after a second")
		}
		if start := time.Now(); !c.Wait(time.Minute) || time.Since(start) != time.Second || !ended {
			t.Errorf("it waits for %v, want until the call is over", time.Since(start))
		}
		if !errors.Is(context.Cause(c.Life()), errClosing) || !c.Closed() {
			t.Error("it is closed")
		}
	})
}

func TestPause(t *testing.T) {
	inTime(t, func(t *testing.T, c *call.Calls) {
		start := time.Now()
		if err := c.Pause(t.Context(), time.Second); err != nil || time.Since(start) != time.Second {
			t.Errorf("%v after %v, want a second", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Pause(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, driver.ErrNotSent) {
			t.Errorf("at the end of ctx: %v", err)
		}
		time.AfterFunc(time.Second, func() { c.Close() })
		if err := c.Pause(t.Context(), time.Minute); err != driver.ErrClosed {
			t.Errorf("at Close: %v", err)
		}
	})
}

// Whoever is to undo requests waits for those of the name that are under way when it comes.
func TestOnWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o call.OnWay[string]
		first, second, other := o.Begin("a"), o.Begin("a"), o.Begin("b")
		start := time.Now()
		time.AfterFunc(time.Second, func() { first(); o.Begin("a") })
		time.AfterFunc(2*time.Second, second)
		if err := o.Await(t.Context(), "a"); err != nil || time.Since(start) != 2*time.Second {
			t.Errorf("%v after %v, want when both are over", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := o.Await(ctx, "b"); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, driver.ErrNotSent) {
			t.Errorf("at the end of ctx: %v", err)
		}
		other()
		if err := o.Await(t.Context(), "b"); err != nil {
			t.Error(err)
		}
	})
}

// What is over a moment after the end gives its result.
func TestGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for takes, inTime := range map[time.Duration]bool{time.Second: true, 1009 * time.Millisecond: true, 1011 * time.Millisecond: false} {
			for name, end := range ends {
				c := call.New(call.Options{ErrClosing: errClosing, Grace: 10 * time.Millisecond})
				ctx, cancel := context.WithCancel(t.Context())
				if name == "deadline" {
					ctx, cancel = context.WithTimeout(t.Context(), time.Second)
				}
				time.AfterFunc(time.Second, func() { end.end(cancel, c) })
				start := time.Now()
				v, left, err := call.DoSend(ctx, c, func(in *call.Call) (int, error) {
					time.Sleep(takes)
					return 1, nil
				}, nil)
				if took := time.Since(start); left == inTime || inTime && (v != 1 || err != nil) || !inTime && (!errors.Is(err, end.why) || took != 1010*time.Millisecond) {
					t.Errorf("%s, it takes %v: %d, %v, %v after %v", name, takes, v, left, err, took)
				}
				cancel()
				c.Close()
				c.Wait(time.Minute)
			}
		}
	})
}
