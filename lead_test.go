package coord

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
)

// leading calls fn with a client of a fake store, what it logs, and the store, in a bubble.
func leading(t *testing.T, fn func(t *testing.T, f *fakeStore, c *Client, log *logBuffer)) {
	synctest.Test(t, func(t *testing.T) {
		f, log := newFake(), &logBuffer{}
		fn(t, f, newTestClient(t, f, WithLogger(slog.New(slog.NewTextHandler(log, nil)))), log)
	})
}

// remove ends the hold on key, as an operator would.
func (f *fakeStore) remove(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.leases, key)
}

// Terms of one context, and a re-entry by the function, do not mix up their owners.
func TestLeadOwners(t *testing.T) {
	leading(t, func(t *testing.T, f *fakeStore, c *Client, _ *logBuffer) {
		ctx, stop := context.WithCancel(WithOwner(t.Context()))
		leads, other := make(chan struct{}), make(chan error, 1)
		go func() {
			<-leads
			other <- Lead(ctx, c, "k", func(context.Context) error { t.Error("two lead"); return nil })
		}()
		err := Lead(ctx, c, "k", func(ctx context.Context) error {
			close(leads)
			synctest.Wait()
			err := Do(ctx, c, "k", func(context.Context) error { return nil })
			stop()
			<-ctx.Done()
			wantErr(t, <-other, context.Canceled)
			return err
		})
		if err != nil || f.count("unlock") != 1 {
			t.Errorf("%v, %v", err, f.calls)
		}
	})
}

// What fn returns when its term was lost does not end Lead, and is logged if it is an error of its own.
func TestLeadAfterALoss(t *testing.T) {
	for name, tc := range map[string]struct {
		returns func(ctx context.Context) error
		logs    string
	}{
		"nothing":             {func(context.Context) error { return nil }, ""},
		"the context's error": {func(ctx context.Context) error { return fmt.Errorf("work: %w", ctx.Err()) }, ""},
		"the loss":            {context.Cause, ""},
		"an error of its own": {func(context.Context) error { return errors.New("mine") }, "error=mine"},
	} {
		t.Run(name, func(t *testing.T) {
			leading(t, func(t *testing.T, f *fakeStore, c *Client, log *logBuffer) {
				var tokens []Token
				err := Lead(t.Context(), c, "k", func(ctx context.Context) error {
					l, _ := Held(ctx, "k")
					if tokens = append(tokens, l.Token()); len(tokens) == 2 {
						return nil
					}
					f.remove("k")
					<-ctx.Done()
					wantErr(t, context.Cause(ctx), ErrLost)
					return tc.returns(ctx)
				})
				if err != nil || len(tokens) != 2 || tokens[1] <= tokens[0] {
					t.Errorf("%v, terms %v", err, tokens)
				}
				if got := log.String(); strings.Contains(got, "failed in a term") != (tc.logs != "") || !strings.Contains(got, tc.logs) {
					t.Errorf("log %s, want %q", got, tc.logs)
				}
			})
		})
	}
}

// The loss is found only when the key is given back: fn did not lead to its end either.
func TestLeadLossFoundAtTheEnd(t *testing.T) {
	leading(t, func(t *testing.T, f *fakeStore, c *Client, _ *logBuffer) {
		terms := 0
		err := Lead(t.Context(), c, "k", func(context.Context) error {
			if terms++; terms == 1 {
				f.remove("k")
			}
			return fmt.Errorf("term %d", terms)
		})
		if err == nil || err.Error() != "term 2" {
			t.Errorf("%v", err)
		}
	})
}

// MaxHold ends a term, and others have their turn.
func TestLeadMaxHold(t *testing.T) {
	leading(t, func(t *testing.T, f *fakeStore, c *Client, _ *logBuffer) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		other := newTestClient(t, f)
		terms := map[string]int{}
		work := func(name string) func(context.Context) error {
			return func(ctx context.Context) error {
				terms[name]++ // they take turns
				<-ctx.Done()
				return nil
			}
		}
		rival := make(chan error, 1)
		go func() { rival <- Lead(ctx, other, "k", work("b"), MaxHold(time.Second)) }()
		_ = Lead(ctx, c, "k", work("a"), MaxHold(time.Second)) // who leads at the end gives nil
		<-rival
		if n := terms["a"] + terms["b"]; n < 30 || terms["a"] < 10 || terms["b"] < 10 {
			t.Errorf("terms %v", terms)
		}
	})
}

// An outage is logged once. Campaigns pause, longer and longer, up to a tenth of the TTL.
func TestLeadOutage(t *testing.T) {
	leading(t, func(t *testing.T, f *fakeStore, c *Client, log *logBuffer) {
		began, asked := time.Now(), []time.Time(nil)
		f.setIntercept(func(op, _ string) outcome {
			if op != "trylock" || time.Since(began) >= time.Minute {
				return outcome{}
			}
			asked = append(asked, time.Now())
			return outcome{before: errWire}
		})
		err := Lead(t.Context(), c, "k", func(context.Context) error { return nil }, TTL(10*time.Second))
		if took := time.Since(began); err != nil || took < time.Minute || took > 62*time.Second {
			t.Errorf("%v after %v", err, took)
		}
		if n := len(asked); n < 60 || n > 130 { // 0.5 to 1 s apart
			t.Errorf("asked %d times in a minute", n)
		}
		if first, last := asked[1].Sub(asked[0]), asked[len(asked)-1].Sub(asked[len(asked)-2]); first > 15*time.Millisecond || last < 500*time.Millisecond {
			t.Errorf("the first pause %v, the last %v", first, last)
		}
		if n := strings.Count(log.String(), "a campaign failed"); n != 1 {
			t.Errorf("log %s", log)
		}
	})
}

// A term that lasted begins the pauses again; one that is lost at once does not. After a term the pause is longer than
// those between the polls of a candidate that waits.
func TestLeadPauses(t *testing.T) {
	l := newCandidate(nil, "k", []LockOption{TTL(10 * time.Second)})
	if l.pause != firstRest || l.longest != time.Second || termRest/2 <= 3*pollPause/2 {
		t.Fatalf("pauses %v to %v, %v after a term", l.pause, l.longest, termRest)
	}
	l.note(&term{began: true, lasted: l.longest - 1}, ErrLost)
	if l.pause != termRest {
		t.Errorf("pause %v after a first term", l.pause)
	}
	l.pause = l.longest
	l.note(&term{began: true, lasted: l.longest - 1}, ErrLost)
	if l.pause != l.longest {
		t.Errorf("pause %v after a short term", l.pause)
	}
	l.note(&term{began: true, lasted: l.longest}, ErrLost)
	if l.pause != termRest {
		t.Errorf("pause %v after a term that lasted", l.pause)
	}
	if l := newCandidate(nil, "k", []LockOption{TTL(time.Hour)}); l.longest != longestRest {
		t.Errorf("longest pause %v of a TTL of an hour", l.longest)
	}
	l = newCandidate(nil, "k", []LockOption{TTL(time.Millisecond)})
	l.note(&term{began: true}, ErrLost)
	if l.longest != firstRest || l.pause != firstRest {
		t.Errorf("pause %v, longest %v of a TTL of a millisecond", l.pause, l.longest)
	}
}

// breakable is a fake store whose holds an operator can break: the key is kept taken until the lease ends.
type breakable struct{ *fakeStore }

func (f breakable) Info() driver.Info { return claiming(f.fakeStore, driver.Inspect, driver.Break) }

const broken = "broken"

func (b breakable) Inspect(context.Context, string) (driver.Holder, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.live("k")
	if l == nil {
		return driver.Holder{}, driver.ErrNotHeld
	}
	h := driver.NewHolder(l.id, l.token, time.Until(l.end))
	h.Released = l.id == broken
	return h, nil
}

func (b breakable) Break(_ context.Context, key, id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.live(key)
	if l == nil || l.id != id {
		return driver.ErrNotHeld
	}
	l.id = broken
	return nil
}

func (b breakable) BreakNow(ctx context.Context, key, id string) error { return b.Unlock(ctx, key, id) }

// A leader whose term was broken lets another candidate that waits come first, each time, on a store without a line.
// Without another one it leads again soon after the key is free.
func TestLeadGivesWayAfterABreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := breakable{newFake()}
		operator := newTestClient(t, f)
		breakIt := func() {
			h, err := operator.Inspect(t.Context(), "k")
			if err == nil {
				err = operator.Break(t.Context(), "k", h.ID)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		leads, ended := make(chan string), make(chan error, 2)
		candidate := func(name string) {
			ended <- Lead(ctx, newTestClient(t, f), "k", func(ctx context.Context) error {
				leads <- name
				<-ctx.Done()
				return nil
			})
		}
		go candidate("a")
		<-leads
		breakIt()
		free := f.freeAt("k")
		last := <-leads
		if time.Since(free) > time.Second {
			t.Errorf("it led again %v after the key was free", time.Since(free))
		}
		go candidate("b")
		synctest.Wait()
		for range 20 {
			time.Sleep(time.Second) // the other one waits again
			breakIt()
			now := <-leads
			if now == last {
				t.Errorf("%s leads again, before the other one", now)
			}
			last = now
		}
		cancel()
		for range 2 {
			<-ended
		}
	})
}

// passingError is a refusal that may go away by itself.
type passingError struct{ error }

func (passingError) Temporary() bool { return true }
func (e passingError) Unwrap() error { return e.error }

// A refusal ends Lead, unless it may go away by itself, or Lead has had a term: then the call was no mistake.
func TestLeadAfterARefusal(t *testing.T) {
	for name, refusal := range map[string]error{"invalid": ErrInvalid, "unsupported": ErrUnsupported} {
		t.Run(name, func(t *testing.T) {
			leading(t, func(t *testing.T, f *fakeStore, c *Client, _ *logBuffer) {
				asked := 0
				refuse := func(err error, from, to int) {
					asked = 0
					f.setIntercept(func(op, _ string) outcome {
						if op != "trylock" {
							return outcome{}
						}
						if asked++; asked < from || asked > to {
							return outcome{}
						}
						return outcome{before: err}
					})
				}
				nothing := func(context.Context) error { return nil }
				refuse(refusal, 1, 1)
				wantErr(t, Lead(t.Context(), c, "k", nothing), refusal)
				refuse(passingError{refusal}, 1, 5)
				if err := Lead(t.Context(), c, "k", nothing); err != nil || asked != 6 {
					t.Errorf("%v after %d campaigns", err, asked)
				}
				terms := 0
				refuse(refusal, 2, 5)
				err := Lead(t.Context(), c, "k", func(ctx context.Context) error {
					if terms++; terms == 1 {
						f.remove("k")
						<-ctx.Done()
					}
					return nil
				})
				if err != nil || terms != 2 || asked != 6 {
					t.Errorf("%v after %d terms and %d campaigns", err, terms, asked)
				}
			})
		})
	}
}

// ctx may end in a pause, in the wait and in a term.
func TestLeadEndsWithItsContext(t *testing.T) {
	enough := errors.New("enough")
	leading(t, func(t *testing.T, f *fakeStore, c *Client, _ *logBuffer) {
		ctx, cancel := context.WithCancelCause(t.Context())
		f.setIntercept(func(string, string) outcome { return outcome{before: errWire} })
		time.AfterFunc(time.Minute, func() { cancel(enough) })
		err := Lead(ctx, c, "k", func(context.Context) error { t.Error("it ran"); return nil })
		wantErr(t, err, enough, context.Canceled)
		f.setIntercept(nil)

		ctx, cancel = context.WithCancelCause(t.Context())
		rival := must[*Lock](t)(newTestClient(t, f).Lock(t.Context(), "k"))
		time.AfterFunc(time.Minute, func() { cancel(enough) })
		err = Lead(ctx, c, "k", func(context.Context) error { t.Error("it ran"); return nil })
		wantErr(t, err, enough, context.Canceled, ErrLocked)
		unlock(t, rival)

		ctx, cancel = context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(enough) })
		err = Lead(ctx, c, "k", func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(time.Hour)
			if !f.held("k") {
				t.Error("the key was given back while fn ran")
			}
			return nil
		})
		if err != nil || f.held("k") {
			t.Errorf("%v, held %v", err, f.held("k"))
		}
	})
}

// The end of ctx and a loss at once: what fn returned, and the loss.
func TestLeadEndsWithItsContextAndALoss(t *testing.T) {
	leading(t, func(t *testing.T, f *fakeStore, c *Client, _ *logBuffer) {
		ctx, cancel := context.WithCancel(t.Context())
		mine := errors.New("mine")
		err := Lead(ctx, c, "k", func(ctx context.Context) error {
			f.remove("k")
			cancel()
			time.Sleep(time.Hour)
			return mine
		})
		wantErr(t, err, mine, ErrLost)
	})
}

func TestLeadRefuses(t *testing.T) {
	never := func(context.Context) error { t.Error("it ran"); return nil }
	c := newTestClient(t, newFake())
	for name, opts := range map[string][]LockOption{
		"WaitAtMost": {WaitAtMost(time.Second)}, "NoRenew": {NoRenew()}, "MinHold": {MinHold(time.Second)}, "no option": {{}}, "TTL": {TTL(-1)},
	} {
		t.Run(name, func(t *testing.T) {
			wantErr(t, Lead(t.Context(), c, "k", never, opts...), ErrInvalid)
			if name != "no option" && name != "TTL" { // of another Locker too, which may add options of its own
				wantErr(t, Lead(t.Context(), opaque{c}, "k", never, opts...), ErrInvalid)
			}
		})
	}
	wantErr(t, Lead(t.Context(), c, "", never), ErrInvalid)
	wantErr(t, Lead(t.Context(), c, "k", never, Fair()), ErrUnsupported)
	wantErr(t, Lead(t.Context(), newTestClient(t, newFake(), WithLockDefaults(NoRenew())), "k", never), ErrInvalid)
}

// A wait that is a default of the client does not end a campaign.
func TestLeadWaitsOverADefault(t *testing.T) {
	leading(t, func(t *testing.T, f *fakeStore, c *Client, log *logBuffer) {
		rival := must[*Lock](t)(c.Lock(t.Context(), "k"))
		time.AfterFunc(time.Hour, func() { unlock(t, rival) })
		waits := newTestClient(t, f, WithLogger(slog.New(slog.NewTextHandler(log, nil))), WithLockDefaults(WaitAtMost(time.Second)))
		if err := Lead(t.Context(), waits, "k", func(context.Context) error { return nil }); err != nil || log.String() != "" {
			t.Errorf("%v, log %s", err, log)
		}
	})
}

// Close ends Lead, in a term and in a pause.
func TestLeadOfAClosedClient(t *testing.T) {
	leading(t, func(t *testing.T, f *fakeStore, c *Client, _ *logBuffer) {
		err := Lead(t.Context(), c, "k", func(ctx context.Context) error {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
			return nil
		})
		wantErr(t, err, ErrClosed)
		c = newTestClient(t, f)
		f.setIntercept(func(string, string) outcome { return outcome{before: errWire} })
		closed := make(chan time.Time, 1)
		time.AfterFunc(time.Minute, func() {
			_ = c.Close()
			closed <- time.Now()
		})
		wantErr(t, Lead(t.Context(), c, "k", func(context.Context) error { return nil }, TTL(time.Hour)), ErrClosed)
		returned := time.Now()
		if late := returned.Sub(<-closed); late > 0 {
			t.Errorf("it returned %v after Close", late)
		}
	})
}

// uncomparable is an error that == panics on.
type uncomparable []string

func (u uncomparable) Error() string { return strings.Join(u, " ") }

func TestLeadOfAnotherLocker(t *testing.T) {
	c := newTestClient(t, newFake())
	err := Lead(t.Context(), opaque{c}, "k", func(ctx context.Context) error {
		if _, ok := Held(ctx, "x/k"); !ok {
			t.Error("it holds nothing")
		}
		return uncomparable{"mine"}
	})
	if err == nil || err.Error() != "mine" {
		t.Error(err)
	}
}
