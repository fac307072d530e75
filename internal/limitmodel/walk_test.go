package limitmodel

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

// naive is a store that counts plainly, and wrongly if it is told to.
type naive struct {
	driver.Unimplemented

	now     func() time.Time
	capped  bool // store what is owed as the burst of the request sees it
	oneRate bool // buckets of all rates are one account
	whole   bool // a rate of a window forgets what another has granted

	granted map[string][]grant
	owed    map[string]owed
}

type grant struct {
	at time.Time
	n  int
}

type owed struct {
	at      time.Time
	permits float64
	over    float64 // that the last burst did not see
	burst   int
}

func (s *naive) Reset(_ context.Context, key string, l driver.Limit) error {
	delete(s.granted, s.name(key, l))
	delete(s.owed, s.name(key, l))
	return nil
}

func (s *naive) name(key string, l driver.Limit) string {
	switch {
	case l.Algorithm != driver.TokenBucket && s.whole:
		return fmt.Sprint(key, l)
	case l.Algorithm != driver.TokenBucket:
		return fmt.Sprint(key, l.Algorithm, l.Per)
	case s.oneRate:
		return key
	}
	return fmt.Sprintf("%s %.9f", key, float64(l.Rate)/float64(l.Per.Microseconds()))
}

func (f *naive) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	return driver.One(f.Take(ctx, key, l, []driver.Ask{a}))
}

func (s *naive) Take(_ context.Context, key string, l driver.Limit, asks []driver.Ask) (t driver.Taken, err error) {
	for _, a := range asks {
		n := min(a.N, s.free(s.name(key, l), l))
		if n < a.Min || n <= 0 {
			t.Asks = append(t.Asks, driver.Granted{RetryAfter: time.Millisecond})
			continue
		}
		t.Asks = append(t.Asks, driver.Granted{N: n})
		s.book(s.name(key, l), l, n)
	}
	return t, nil
}

func (s *naive) free(name string, l driver.Limit) int {
	if l.Algorithm == driver.TokenBucket {
		return int(float64(l.Burst) - s.owes(name, l).seen())
	}
	free := l.Rate
	for _, g := range s.granted[name] {
		if l.Algorithm == driver.SlidingWindow && s.now().Sub(g.at) < l.Per ||
			l.Algorithm == driver.FixedWindow && g.at.UnixMicro()/l.Per.Microseconds() == s.now().UnixMicro()/l.Per.Microseconds() {
			free -= g.n
		}
	}
	return free
}

func (o owed) seen() float64 { return max(0, o.permits-o.over) }

// owes is what is owed now, as l sees it.
func (s *naive) owes(name string, l driver.Limit) owed {
	o := s.owed[name]
	if o.burst != l.Burst {
		o.over = max(0, o.permits-float64(l.Burst))
	}
	seen := max(0, o.seen()-float64(s.now().Sub(o.at))*float64(l.Rate)/float64(l.Per))
	whole := max(0, o.permits-float64(s.now().Sub(o.at))*float64(l.Rate)/float64(l.Per))
	return owed{s.now(), whole, whole - seen, l.Burst}
}

func (s *naive) book(name string, l driver.Limit, n int) {
	if l.Algorithm != driver.TokenBucket {
		s.granted[name] = append(s.granted[name], grant{s.now(), n})
		return
	}
	o := s.owes(name, l)
	o.permits += float64(n)
	if s.capped {
		o.permits, o.over = o.seen(), 0
	}
	s.owed[name] = o
}

// The walk finds nothing in a store that counts rightly, and each of the bugs.
func TestWalk(t *testing.T) {
	for name, test := range map[string]struct {
		bug  func(*naive)
		good bool
	}{
		"right":             {func(*naive) {}, true},
		"capped debt":       {func(s *naive) { s.capped = true }, false},
		"rates on one debt": {func(s *naive) { s.oneRate = true }, false},
		"a window by rates": {func(s *naive) { s.whole = true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.UnixMicro(1_790_000_000_123_457)
			s := &naive{now: func() time.Time { return now }, granted: make(map[string][]grant), owed: make(map[string]owed)}
			test.bug(s)
			err := Walk{
				Store: s, Steps: 20_000, Seed: 1, Per: time.Second,
				Now: s.now, Pass: func(d time.Duration) { now = now.Add(d) },
			}.Run(t.Context())
			if (err == nil) != test.good {
				t.Errorf("saw %v", err)
			}
		})
	}
}

// What gives nothing back does not move the time of an account: when the clock is set back after it, the window before
// goes on.
func TestWindowAfterAReturnOfNothing(t *testing.T) {
	l, err := driver.ParseLimit("10/1s fixed-window")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_790_000_000, 0) // a window begins
	r := &walker{Walk: Walk{Now: func() time.Time { return now }}, start: now}
	grant := func(id string) error {
		return r.granted("k", l, driver.Ask{Min: 10, N: 10, ID: id}, driver.Granted{N: 10}, r.passed(), now)
	}
	if err := r.charged("k", l, -1, r.passed(), now); err != nil {
		t.Error(err)
	}
	now, r.back = now.Add(-time.Millisecond), r.back+time.Millisecond
	if err := grant("a"); err != nil {
		t.Errorf("in the window before: %v", err)
	}
	now = now.Add(500 * time.Millisecond)
	if err := grant("b"); err != nil {
		t.Errorf("in the next window: %v", err)
	}
	if err := grant("c"); err == nil {
		t.Error("a second grant of all in one window is not found")
	}
}
