package cas_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
)

const sec = time.Second

func second[A any](_ A, err error) error { return err }

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

func try(t *testing.T, b *cas.Backend, id string, ttl time.Duration) (driver.Grant, error) {
	return b.TryLock(t.Context(), "k", driver.Request{ID: id, TTL: ttl})
}

func mustTry(t *testing.T, b *cas.Backend, id string, ttl time.Duration) int64 {
	t.Helper()
	g, err := try(t, b, id, ttl)
	if err != nil {
		t.Fatalf("TryLock by %s: %v", id, err)
	}
	if g.TTL < ttl {
		t.Fatalf("TryLock by %s: TTL %v, want %v", id, g.TTL, ttl)
	}
	return g.Token
}

func TestLeaseLife(t *testing.T) {
	eachForm(t, func(t *testing.T, s *shelf, b *cas.Backend) {
		renew := func(id string, ttl time.Duration) error {
			return second(b.Renew(t.Context(), "k", driver.Request{ID: id, TTL: ttl}))
		}
		unlock := func(id string) error { return b.Unlock(t.Context(), "k", id) }

		one := mustTry(t, b, "a", 10*sec)
		if one != s.now.UnixMicro() {
			t.Errorf("first token %d, want the clock, %d", one, s.now.UnixMicro())
		}
		var locked *driver.LockedError
		if _, err := try(t, b, "b", sec); !errors.As(err, &locked) || locked.Remaining != 10*sec {
			t.Errorf("TryLock of a taken key: %v, want a LockedError with 10s", err)
		}
		s.pass(9 * sec)
		if again := mustTry(t, b, "a", 10*time.Millisecond); again != one {
			t.Errorf("repeated attempt: token %d, want %d", again, one)
		}
		wantErr(t, "TryLock, the lease not shortened", second(try(t, b, "b", sec)), driver.ErrLocked)
		wantErr(t, "Renew", renew("a", 10*sec), nil)
		wantErr(t, "Renew with less", renew("a", sec), nil)
		wantErr(t, "Renew of another", renew("b", sec), driver.ErrNotHeld)
		wantErr(t, "Unlock of another", unlock("b"), driver.ErrNotHeld)
		s.pass(10*sec - time.Microsecond)
		wantErr(t, "TryLock before the end", second(try(t, b, "b", sec)), driver.ErrLocked)
		s.pass(time.Microsecond)
		wantErr(t, "Renew of a lapsed hold", renew("a", sec), driver.ErrNotHeld)
		wantErr(t, "Unlock of a lapsed hold", unlock("a"), driver.ErrNotHeld)
		wantErr(t, "Inspect of a lapsed hold", second(b.Inspect(t.Context(), "k")), driver.ErrNotHeld)
		two := mustTry(t, b, "a", sec)
		if two <= one {
			t.Errorf("token %d after %d", two, one)
		}
		wantErr(t, "Unlock", unlock("a"), nil)
		wantErr(t, "Unlock twice", unlock("a"), driver.ErrNotHeld)
		wantErr(t, "Renew after Unlock", renew("a", sec), driver.ErrNotHeld)
		// Within one microsecond the clock does not tell holds apart.
		if three := mustTry(t, b, "b", sec); three != two+1 {
			t.Errorf("token %d, want %d", three, two+1)
		}
	})
}

func TestTokensRiseWhenTheClockGoesBack(t *testing.T) {
	eachForm(t, func(t *testing.T, s *shelf, b *cas.Backend) {
		last := int64(0)
		for range 100 {
			token := mustTry(t, b, "a", sec)
			if token <= last {
				t.Fatalf("token %d after %d", token, last)
			}
			last = token
			wantErr(t, "Unlock", b.Unlock(t.Context(), "k", "a"), nil)
			s.pass(-30 * sec)
		}
	})
}

// A clock that was an hour ahead, and is set back: nobody is in the way for longer than its own TTL.
func TestClockSetBack(t *testing.T) {
	eachForm(t, func(t *testing.T, s *shelf, b *cas.Backend) {
		ctx := t.Context()
		renew := func(id string) driver.Grant {
			t.Helper()
			g, err := b.Renew(ctx, "k", driver.Request{ID: id, TTL: sec})
			wantErr(t, "Renew", err, nil)
			return g
		}
		// back sets the clock back. Who asks is refused, for the TTL from then on, and not before.
		back := func(what string, last int64) (token int64) {
			t.Helper()
			s.pass(-time.Hour)
			_, err := try(t, b, "next", sec)
			var locked *driver.LockedError
			if !errors.As(err, &locked) || locked.Remaining > sec+time.Microsecond {
				t.Fatalf("%s: %v: want at most the TTL to be left", what, err)
			}
			writes := s.writes
			s.pass(sec)
			wantErr(t, what+", before the end", second(try(t, b, "next", sec)), driver.ErrLocked)
			if s.writes != writes {
				t.Errorf("%s: a refusal wrote", what)
			}
			s.pass(time.Microsecond)
			if token = mustTry(t, b, "next", sec); token <= last {
				t.Errorf("%s: token %d after %d", what, token, last)
			}
			wantErr(t, "Unlock", b.Unlock(ctx, "k", "next"), nil)
			return token
		}
		last := back("a dead holder", mustTry(t, b, "a", sec))

		last = max(last, mustTry(t, b, "a", sec))
		wantErr(t, "UnlockAfter", b.UnlockAfter(ctx, "k", "a", sec), nil)
		last = back("what is kept taken", last)

		last = max(last, mustTry(t, b, "a", sec))
		s.pass(-time.Hour)
		if g := renew("a"); g.TTL > sec+time.Microsecond || g.Token != last {
			t.Errorf("a renewal: %+v", g)
		}
		s.pass(-time.Hour)
		if h, err := b.Inspect(ctx, "k"); err != nil || h.TTL > sec+time.Microsecond {
			t.Errorf("Inspect: %+v, %v", h, err)
		}
		wantErr(t, "Unlock", b.Unlock(ctx, "k", "a"), nil)
	})
}

func TestKeptTaken(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(context.Context, *cas.Backend) error
		left time.Duration
	}{
		"UnlockAfter": {func(ctx context.Context, b *cas.Backend) error { return b.UnlockAfter(ctx, "k", "a", 3*sec) }, 3 * sec},
		"Break":       {func(ctx context.Context, b *cas.Backend) error { return b.Break(ctx, "k", "a") }, 9 * sec},
	} {
		t.Run(name, func(t *testing.T) {
			eachForm(t, func(t *testing.T, s *shelf, b *cas.Backend) {
				ctx := t.Context()
				token := mustTry(t, b, "a", 10*sec)
				s.pass(sec)
				wantErr(t, "Break of another", b.Break(ctx, "k", "x"), driver.ErrNotHeld)
				wantErr(t, "the call", tc.end(ctx, b), nil)
				wantErr(t, "the call again", tc.end(ctx, b), driver.ErrNotHeld)
				wantErr(t, "Renew", second(b.Renew(ctx, "k", driver.Request{ID: "a", TTL: sec})), driver.ErrNotHeld)
				wantErr(t, "Unlock", b.Unlock(ctx, "k", "a"), driver.ErrNotHeld)
				wantErr(t, "TryLock by the same id", second(try(t, b, "a", sec)), driver.ErrLocked)
				h, err := b.Inspect(ctx, "k")
				want := driver.Holder{ID: "a", Token: driver.Token(token), TTL: tc.left, Waiters: -1, Released: true}
				if err != nil || h != want {
					t.Errorf("Inspect: %+v, %v, want %+v", h, err, want)
				}
				s.pass(tc.left)
				wantErr(t, "Inspect of the free key", second(b.Inspect(ctx, "k")), driver.ErrNotHeld)
				if next := mustTry(t, b, "b", sec); next <= token {
					t.Errorf("token %d after %d", next, token)
				}
			})
		})
	}
}

func TestRefusals(t *testing.T) {
	eachForm(t, func(t *testing.T, s *shelf, b *cas.Backend) {
		ctx := t.Context()
		for name, r := range map[string]driver.Request{
			"no id":         {TTL: sec},
			"long id":       {ID: strings.Repeat("i", driver.MaxID+1), TTL: sec},
			"id of words":   {ID: "a b", TTL: sec},
			"id of lines":   {ID: "a\nb", TTL: sec},
			"zero TTL":      {ID: "a"},
			"negative TTL":  {ID: "a", TTL: -1},
			"unending TTL":  {ID: "a", TTL: 1<<63 - 1},
			"a year's TTL+": {ID: "a", TTL: driver.MaxPer + 1},
		} {
			wantErr(t, "TryLock: "+name, second(b.TryLock(ctx, "k", r)), driver.ErrInvalid)
			wantErr(t, "Renew: "+name, second(b.Renew(ctx, "k", r)), driver.ErrInvalid)
		}
		wantErr(t, "fair", second(b.TryLock(ctx, "k", driver.Request{ID: "a", TTL: sec, Fair: true})), driver.ErrUnsupported)
		wantErr(t, "empty key", second(b.TryLock(ctx, "", driver.Request{ID: "a", TTL: sec})), driver.ErrInvalid)
		wantErr(t, "Unlock: id", b.Unlock(ctx, "k", "a b"), driver.ErrInvalid)
		wantErr(t, "UnlockAfter: huge", b.UnlockAfter(ctx, "k", "a", driver.MaxPer+1), driver.ErrInvalid)
		wantErr(t, "Break: empty key", b.Break(ctx, "", "a"), driver.ErrInvalid)
		wantErr(t, "Inspect: empty key", second(b.Inspect(ctx, "")), driver.ErrInvalid)

		ended, cancel := context.WithCancel(ctx)
		cancel()
		err := second(b.TryLock(ended, "k", driver.Request{ID: "a", TTL: sec}))
		for _, want := range []error{driver.ErrNotSent, context.Canceled} {
			wantErr(t, "ended context", err, want)
		}
		if len(s.cells)+s.writes+s.loads > 0 {
			t.Errorf("refused calls reached the store: %d cells, %d writes, %d loads", len(s.cells), s.writes, s.loads)
		}
	})
}

func TestClose(t *testing.T) {
	eachForm(t, func(t *testing.T, s *shelf, b *cas.Backend) {
		wantErr(t, "Ping", b.Ping(t.Context()), nil)
		s.plan(func(string) error { return errNetwork })
		wantErr(t, "Ping", b.Ping(t.Context()), errNetwork)
		if s.pings != 2 {
			t.Errorf("%d round trips, want 2", s.pings)
		}
		for range 2 {
			wantErr(t, "Close", b.Close(), nil)
		}
		if s.closed != 1 {
			t.Errorf("cells closed %d times, want once", s.closed)
		}
		wantErr(t, "TryLock", second(try(t, b, "a", sec)), driver.ErrClosed)
		wantErr(t, "Unlock", b.Unlock(t.Context(), "k", "a"), driver.ErrClosed)
		wantErr(t, "Ping", b.Ping(t.Context()), driver.ErrClosed)
		wantErr(t, "Take", second(b.Take(t.Context(), "k", perMinute, nil)), driver.ErrClosed)
	})
}

func TestInfoIsACopy(t *testing.T) {
	b := cas.New(info, cas.Optimistic(newShelf()))
	b.Info().Claims[0] = driver.Fair
	if got := b.Info().Claims[0]; got != driver.PerHoldTTL {
		t.Errorf("claim changed to %s", got)
	}
}

// A failed swap is never repeated; before its effect, or after, the same id
// finds out by trying again.
func TestUnknownOutcomes(t *testing.T) {
	for _, step := range []string{"before", "after"} {
		t.Run(step, func(t *testing.T) {
			eachForm(t, func(t *testing.T, s *shelf, b *cas.Backend) {
				failOnce := func() {
					s.plan(func(at string) error {
						if at != step {
							return nil
						}
						s.fault = nil
						return errNetwork
					})
				}
				failOnce()
				_, err := try(t, b, "a", 10*sec)
				wantErr(t, "TryLock", err, errNetwork)
				if driver.Definite(err) {
					t.Errorf("TryLock: %v is definite, want an unknown outcome", err)
				}
				if want := map[string]int{"before": 0, "after": 1}[step]; s.writes != want {
					t.Errorf("%d writes, want %d", s.writes, want)
				}
				mustTry(t, b, "a", 10*sec)
				wantErr(t, "TryLock by another", second(try(t, b, "b", sec)), driver.ErrLocked)

				failOnce()
				wantErr(t, "Unlock", b.Unlock(t.Context(), "k", "a"), errNetwork)
				again := map[string]error{"before": nil, "after": driver.ErrNotHeld}[step]
				wantErr(t, "Unlock again", b.Unlock(t.Context(), "k", "a"), again)
				mustTry(t, b, "b", sec)
			})
		})
	}
}

func TestFailedLoadIsDefinite(t *testing.T) {
	s := newShelf()
	b := cas.New(info, cas.Optimistic(s))
	s.plan(func(step string) error {
		if step == "load" {
			return errNetwork
		}
		return nil
	})
	err := second(try(t, b, "a", sec))
	wantErr(t, "TryLock", err, driver.ErrNotSent)
	wantErr(t, "TryLock", err, errNetwork)
}

func TestConflictsEndWithTheContext(t *testing.T) {
	s := newShelf()
	b := cas.New(info, cas.Optimistic(s))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	rounds := 0
	s.plan(func(step string) error {
		if step != "before" {
			return nil
		}
		if rounds++; rounds == 5 {
			cancel()
		}
		return errConflict
	})
	err := second(b.TryLock(ctx, "k", driver.Request{ID: "a", TTL: sec}))
	for _, want := range []error{driver.ErrNotSent, context.Canceled} {
		wantErr(t, "TryLock", err, want)
	}
	if s.writes != 0 || rounds < 5 {
		t.Errorf("%d writes in %d rounds, want none in 5", s.writes, rounds)
	}
}

func TestForeignValueIsLeftAlone(t *testing.T) {
	eachForm(t, func(t *testing.T, s *shelf, b *cas.Backend) {
		name := cas.Name{Kind: cas.Lock, Key: "k"}
		s.cells[name] = cell{value: []byte("somebody else's"), version: 1, until: s.now.Add(time.Hour)}
		r := driver.Request{ID: "a", TTL: sec}
		wantErr(t, "TryLock", second(b.TryLock(t.Context(), "k", r)), driver.ErrCorrupt)
		wantErr(t, "Renew", second(b.Renew(t.Context(), "k", r)), driver.ErrCorrupt)
		wantErr(t, "Unlock", b.Unlock(t.Context(), "k", "a"), driver.ErrCorrupt)
		wantErr(t, "Break", b.Break(t.Context(), "k", "a"), driver.ErrCorrupt)
		wantErr(t, "Inspect", second(b.Inspect(t.Context(), "k")), driver.ErrCorrupt)
		if s.writes != 0 {
			t.Errorf("%d writes, want none", s.writes)
		}
	})
}

func TestTokensDoNotOutgrowTheirRoom(t *testing.T) {
	eachForm(t, func(t *testing.T, s *shelf, b *cas.Backend) {
		s.now = time.UnixMicro(1<<53 - 1)
		mustTry(t, b, "a", sec)
		wantErr(t, "Unlock", b.Unlock(t.Context(), "k", "a"), nil)
		wantErr(t, "TryLock", second(try(t, b, "b", sec)), driver.ErrUnsupported)
	})
}

// Contending clients lose no update, and all get through.
func TestContention(t *testing.T) {
	eachForm(t, func(t *testing.T, s *shelf, b *cas.Backend) {
		const goroutines, rounds = 8, 40
		var counter, last int64
		var wg sync.WaitGroup
		for i := range goroutines {
			wg.Go(func() {
				for n := 0; n < rounds; {
					r := driver.Request{ID: fmt.Sprintf("%d/%d", i, n), TTL: time.Hour}
					g, err := b.TryLock(t.Context(), "k", r)
					if errors.Is(err, driver.ErrLocked) {
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					if g.Token <= last {
						t.Errorf("token %d after %d", g.Token, last)
					}
					last = g.Token
					counter++
					n++
					if err := b.Unlock(t.Context(), "k", r.ID); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		if counter != goroutines*rounds {
			t.Errorf("counted %d, want %d", counter, goroutines*rounds)
		}
	})
}
