package cas_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
)

func normal(l driver.Limit) driver.Limit {
	n, err := l.Normal()
	if err != nil {
		panic(err)
	}
	return n
}

var (
	perMinute = normal(driver.Limit{Rate: 10, Per: time.Minute})
	fixed     = normal(driver.Limit{Rate: 10, Per: time.Minute, Algorithm: driver.FixedWindow})
	bucket    = normal(driver.Limit{Rate: 10, Per: 10 * sec, Burst: 5})
)

func take(t *testing.T, b *cas.Backend, l driver.Limit, a driver.Ask) driver.TakenOne {
	t.Helper()
	one, err := b.TakeOne(t.Context(), "k", l, a)
	if err != nil {
		t.Fatalf("TakeOne(%v, %+v): %v", l, a, err)
	}
	return one
}

func n(n int) driver.Ask { return driver.Ask{Min: n, N: n} }

func TestTake(t *testing.T) {
	for _, l := range []driver.Limit{perMinute, fixed, bucket} {
		t.Run(l.Algorithm.String(), func(t *testing.T) {
			eachForm(t, func(t *testing.T, s *shelf, b *cas.Backend) {
				peek := take(t, b, l, driver.Ask{})
				if peek.Remaining != l.Max() || s.writes != 0 {
					t.Errorf("peek: %d remaining, %d writes, want %d and none", peek.Remaining, s.writes, l.Max())
				}
				taken, err := b.Take(t.Context(), "k", l, []driver.Ask{n(3), n(l.Max()), {Min: 1, N: l.Max()}})
				if err != nil {
					t.Fatal(err)
				}
				got := make([]int, 0, 3)
				for _, g := range taken.Asks {
					got = append(got, g.N)
				}
				if want := []int{3, 0, l.Max() - 3}; !slices.Equal(got, want) || taken.Remaining != 0 {
					t.Errorf("granted %v, %d remaining, want %v and none", got, taken.Remaining, want)
				}
				if s.writes != 1 {
					t.Errorf("%d writes, want 1", s.writes)
				}
				denied := take(t, b, l, n(1))
				if denied.N != 0 || denied.RetryAfter <= 0 || s.writes != 1 {
					t.Errorf("denied: %+v, %d writes, want a delay and no more writes", denied, s.writes)
				}
				s.pass(denied.RetryAfter)
				if again := take(t, b, l, n(1)); again.N != 1 {
					t.Errorf("after RetryAfter: %+v, want a grant", again)
				}
				s.pass(take(t, b, l, driver.Ask{}).ResetAfter)
				if full := take(t, b, l, driver.Ask{}); full.Remaining != l.Max() {
					t.Errorf("after ResetAfter: %d remaining, want %d", full.Remaining, l.Max())
				}
				if len(s.cells) != 0 {
					t.Errorf("%d cells kept, want none", len(s.cells))
				}
			})
		})
	}
}

func TestStatesAreApart(t *testing.T) {
	eachForm(t, func(t *testing.T, s *shelf, b *cas.Backend) {
		mustTry(t, b, "a", time.Hour)
		for _, l := range []driver.Limit{perMinute, fixed, bucket, normal(driver.Limit{Rate: 10, Per: time.Second})} {
			if got := take(t, b, l, n(l.Max())); got.N != l.Max() {
				t.Errorf("%v: granted %d, want %d", l, got.N, l.Max())
			}
		}
		wantErr(t, "Reset", b.Reset(t.Context(), "k", fixed), nil)
		wantErr(t, "Reset again", b.Reset(t.Context(), "k", fixed), nil)
		if got := take(t, b, fixed, driver.Ask{}); got.Remaining != 10 {
			t.Errorf("after Reset: %d remaining, want 10", got.Remaining)
		}
		if got := take(t, b, perMinute, driver.Ask{}); got.Remaining != 0 {
			t.Errorf("after Reset of another limit: %d remaining, want 0", got.Remaining)
		}
	})
}

func TestReserveAndRefund(t *testing.T) {
	eachForm(t, func(t *testing.T, s *shelf, b *cas.Backend) {
		take(t, b, bucket, n(5))
		ahead := take(t, b, bucket, driver.Ask{ID: "r", Min: 2, N: 2, MaxDelay: 5 * sec})
		if ahead.N != 2 || ahead.Delay != 2*sec {
			t.Fatalf("reservation: %+v, want 2 in 2s", ahead)
		}
		before := take(t, b, bucket, driver.Ask{}).ResetAfter
		for range 2 {
			wantErr(t, "Refund", b.Refund(t.Context(), "k", bucket, "r", 2), nil)
		}
		if after := take(t, b, bucket, driver.Ask{}).ResetAfter; after != before-2*sec {
			t.Errorf("reset in %v after a refund, %v before: want 2s less", after, before)
		}
	})
}

func TestLimitRefusals(t *testing.T) {
	eachForm(t, func(t *testing.T, s *shelf, b *cas.Backend) {
		for name, tc := range map[string]struct {
			ask  driver.Ask
			want error
		}{
			"too many":      {n(11), driver.ErrInvalid},
			"negative":      {n(-1), driver.ErrInvalid},
			"min above n":   {driver.Ask{Min: 2, N: 1}, driver.ErrInvalid},
			"window, ahead": {driver.Ask{Min: 1, N: 1, MaxDelay: sec}, driver.ErrUnsupported},
		} {
			wantErr(t, "TakeOne: "+name, second(b.TakeOne(t.Context(), "k", perMinute, tc.ask)), tc.want)
			wantErr(t, "Take: "+name, second(b.Take(t.Context(), "k", perMinute, []driver.Ask{n(1), tc.ask})), tc.want)
		}
		wantErr(t, "Take: empty key", second(b.Take(t.Context(), "", perMinute, nil)), driver.ErrInvalid)
		wantErr(t, "Reset: empty key", b.Reset(t.Context(), "", perMinute), driver.ErrInvalid)
		wantErr(t, "Refund: empty key", b.Refund(t.Context(), "", bucket, "a", 1), driver.ErrInvalid)
		if s.writes != 0 {
			t.Errorf("%d writes, want none", s.writes)
		}
	})
}

func TestForeignStateIsLeftAlone(t *testing.T) {
	eachForm(t, func(t *testing.T, s *shelf, b *cas.Backend) {
		take(t, b, perMinute, n(1))
		for name, c := range s.cells {
			c.value = []byte("somebody else's")
			s.cells[name] = c
		}
		wantErr(t, "Take", second(b.Take(t.Context(), "k", perMinute, []driver.Ask{n(1)})), driver.ErrCorrupt)
		wantErr(t, "Refund", b.Refund(t.Context(), "k", perMinute, "a", 1), driver.ErrCorrupt)
		wantErr(t, "Reset", b.Reset(t.Context(), "k", perMinute), driver.ErrCorrupt)
		if s.writes != 1 {
			t.Errorf("%d writes, want the first only", s.writes)
		}
	})
}

// A lost reply counts as spent, once.
func TestLostReplyIsSpentOnce(t *testing.T) {
	eachForm(t, func(t *testing.T, s *shelf, b *cas.Backend) {
		s.plan(func(step string) error {
			if step != "after" {
				return nil
			}
			s.fault = nil
			return errNetwork
		})
		err := second(b.TakeOne(t.Context(), "k", perMinute, n(4)))
		if !errors.Is(err, errNetwork) || driver.Definite(err) {
			t.Errorf("TakeOne: %v, want an unknown outcome", err)
		}
		if left := take(t, b, perMinute, driver.Ask{}).Remaining; left != 6 {
			t.Errorf("%d remaining, want 6", left)
		}
	})
}

func TestContendedLimitIsExact(t *testing.T) {
	eachForm(t, func(t *testing.T, s *shelf, b *cas.Backend) {
		l := normal(driver.Limit{Rate: 100, Per: time.Minute})
		var mu sync.Mutex
		granted := 0
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 25 {
					one, err := b.TakeOne(t.Context(), "k", l, n(1))
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					granted += one.N
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if granted != 100 {
			t.Errorf("granted %d of 200 asks, want 100", granted)
		}
	})
}

// A state that a clock made when it was an hour ahead stands still, and begins again when the whole limit would be back.
func TestLimitsOfAClockThatWasSetBack(t *testing.T) {
	for _, l := range []driver.Limit{perMinute, fixed, bucket} {
		t.Run(l.Algorithm.String(), func(t *testing.T) {
			eachForm(t, func(t *testing.T, s *shelf, b *cas.Backend) {
				synctest.Test(t, func(t *testing.T) {
					if one := take(t, b, l, n(l.Max())); one.N != l.Max() {
						t.Fatalf("of a fresh limit: %+v", one)
					}
					s.pass(-time.Hour)
					writes, waited := s.writes, time.Duration(0)
					for take(t, b, l, n(l.Max())).N == 0 {
						if s.writes != writes || waited > 2*time.Minute {
							t.Fatalf("denied for %v, %d writes", waited, s.writes-writes)
						}
						time.Sleep(sec)
						s.pass(sec)
						waited += sec
					}
					whole := time.Minute
					if l.Algorithm == driver.TokenBucket {
						whole = 5 * sec
					}
					if waited < whole || waited > whole+2*sec {
						t.Errorf("granted again after %v, want %v", waited, whole)
					}
				})
			})
		})
	}
}
