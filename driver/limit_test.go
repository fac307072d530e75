package driver

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestNormal(t *testing.T) {
	for _, tc := range []struct {
		in, want Limit
	}{
		{Limit{Rate: 2000, Per: time.Minute}, Limit{2000, time.Minute, 0, SlidingWindow}},
		{Limit{Rate: 2000, Per: time.Minute, Burst: 200}, Limit{2000, time.Minute, 200, TokenBucket}},
		{Limit{Rate: 2000, Per: time.Minute, Algorithm: TokenBucket}, Limit{2000, time.Minute, 2000, TokenBucket}},
		{Limit{Rate: 2000, Per: time.Minute, Algorithm: FixedWindow}, Limit{2000, time.Minute, 0, FixedWindow}},
		{Limit{Rate: MaxRate, Per: MaxPer}, Limit{MaxRate, MaxPer, 0, SlidingWindow}},
		{Limit{Rate: 1, Per: MinPer, Burst: 1}, Limit{1, MinPer, 1, TokenBucket}},
		{Limit{Rate: 1_000_000_000, Per: 24 * time.Hour, Algorithm: TokenBucket}, Limit{1_000_000_000, 24 * time.Hour, 1_000_000_000, TokenBucket}},
	} {
		got, err := tc.in.Normal()
		if got != tc.want || err != nil {
			t.Errorf("%v: %+v, %v: want %+v", tc.in, got, err, tc.want)
		}
		if again, err := got.Normal(); again != got || err != nil {
			t.Errorf("%v: normal form is not stable: %+v, %v", tc.in, again, err)
		}
	}
}

func TestNormalRefuses(t *testing.T) {
	for _, tc := range []struct {
		in   Limit
		want string
	}{
		{Limit{}, "rate 0: want 1 to 1000000000000"},
		{Limit{Rate: MaxRate + 1, Per: time.Second}, "rate 1000000000001"},
		{Limit{Rate: 1}, "period 0s: want 1ms to 8784h0m0s"},
		{Limit{Rate: 1, Per: MaxPer + time.Microsecond}, "want 1ms to 8784h0m0s"},
		{Limit{Rate: 1, Per: time.Second + 1}, "whole microseconds"},
		{Limit{Rate: 1, Per: time.Second, Burst: -1}, "burst -1: want 0 to"},
		{Limit{Rate: 1, Per: time.Second, Burst: 3, Algorithm: SlidingWindow}, "burst 3 with sliding-window"},
		{Limit{Rate: 1, Per: time.Second, Algorithm: -1}, "algorithm(-1)"},
		{Limit{Rate: 999_999_999_989, Per: MaxPer, Algorithm: TokenBucket}, "too fine to count exactly"},
	} {
		_, err := tc.in.Normal()
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v: want ErrInvalid with %q", tc.in, err, tc.want)
		}
	}
}

func TestRefillIsExact(t *testing.T) {
	for _, tc := range []struct {
		l          Limit
		rate, unit int64
	}{
		{Limit{Rate: 2000, Per: time.Minute}, 1, 30_000},
		{Limit{Rate: 7, Per: time.Second}, 7, 1_000_000},
		{Limit{Rate: 1_000_000_000, Per: 24 * time.Hour}, 5, 432},
		{Limit{Rate: 1, Per: time.Millisecond}, 1, 1000},
	} {
		if rate, unit := tc.l.Refill(); rate != tc.rate || unit != tc.unit {
			t.Errorf("%v: %d credits/µs, %d a permit: want %d, %d", tc.l, rate, unit, tc.rate, tc.unit)
		}
	}
}

func TestParseLimit(t *testing.T) {
	for in, want := range map[string]Limit{
		"2000/1m":                      {Rate: 2000, Per: time.Minute},
		" 10/s ":                       {Rate: 10, Per: time.Second},
		"10/1h30m":                     {Rate: 10, Per: 90 * time.Minute},
		"2000/1m burst=200":            {Rate: 2000, Per: time.Minute, Burst: 200},
		"2000/1m fixed-window":         {Rate: 2000, Per: time.Minute, Algorithm: FixedWindow},
		"5/1s token-bucket burst=7":    {Rate: 5, Per: time.Second, Burst: 7, Algorithm: TokenBucket},
		"5/100ms token-bucket":         {Rate: 5, Per: 100 * time.Millisecond, Algorithm: TokenBucket},
		"1/8784h sliding-window":       {Rate: 1, Per: MaxPer, Algorithm: SlidingWindow},
		"1000000/720h burst=1":         {Rate: 1_000_000, Per: 720 * time.Hour, Burst: 1},
		"5/1s   burst=7  token-bucket": {Rate: 5, Per: time.Second, Burst: 7, Algorithm: TokenBucket},
		"2000/min":                     {Rate: 2000, Per: time.Minute},
		"2000/minute":                  {Rate: 2000, Per: time.Minute},
		"2000/m":                       {Rate: 2000, Per: time.Minute},
		"2000 / Min":                   {Rate: 2000, Per: time.Minute},
		"100/sec":                      {Rate: 100, Per: time.Second},
		"10 per second":                {Rate: 10, Per: time.Second},
		"10 per 5 minutes burst=3":     {Rate: 10, Per: 5 * time.Minute, Burst: 3},
		"5/5m":                         {Rate: 5, Per: 5 * time.Minute},
		"5/5min":                       {Rate: 5, Per: 5 * time.Minute},
		"5/5 mins fixed-window":        {Rate: 5, Per: 5 * time.Minute, Algorithm: FixedWindow},
		"60/hr":                        {Rate: 60, Per: time.Hour},
		"100/day":                      {Rate: 100, Per: 24 * time.Hour},
		"100/7d":                       {Rate: 100, Per: 7 * 24 * time.Hour},
		"100/week":                     {Rate: 100, Per: 7 * 24 * time.Hour},
		"5/ms":                         {Rate: 5, Per: time.Millisecond},
		"10/1.5h":                      {Rate: 10, Per: 90 * time.Minute},
	} {
		got, err := ParseLimit(in)
		if got != want || err != nil {
			t.Errorf("%q: %+v, %v: want %+v", in, got, err, want)
		}
	}
}

func TestParseLimitRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"":                           "empty",
		"2000":                       "no period",
		"x/1m":                       `rate "x" is not a whole number`,
		"1.5/1m":                     `rate "1.5"`,
		"-1/1m":                      "rate -1: want 1 to",
		"0/1m":                       "rate 0",
		"10/":                        `period "" is not a duration`,
		"10/fortnight":               `period "fortnight" is not a duration: want one, such as 1s, 5m, 1h or 1d`,
		"10/-1s":                     "period -1s: want",
		"10/1ns":                     "period 1ns: want",
		"10/1s burst=0":              `burst "0" is not a positive`,
		"10/1s burst=x":              `burst "x"`,
		"10/1s burst=1 burst=2":      `"burst=2" is unknown or repeated`,
		"10/1s leaky":                `"leaky" is unknown`,
		"10/1s fixed-window now":     `"now" is unknown`,
		"10/1s burst=5 fixed-window": "only a token-bucket has a burst",
		"99999999999999999999/1s":    "is not a whole number",
		"2000 ":                      `no period: want one, such as "2000/1m"`,
		"100rps":                     "no period: want one",
		"2,000/min":                  `rate "2,000" is not a whole number: want "2000/min"`,
		"2k/min":                     `rate "2k" is not a whole number: want "2000/min"`,
		"1m/2000":                    `rate "1m" is not a whole number: want the rate first, as in "2000/1m"`,
		"10/60":                      `period "60" has no unit: want one, such as "60s"`,
		"10/99999999999999999999d":   "is too long: want at most 8784h",
		"10/999999999999d":           "is too long",
		"10/367d":                    "period 8808h0m0s: want",
		"10/s burst 20":              `"burst" is unknown or repeated: want a burst such as burst=200`,
		"10/s fixed":                 `"fixed" is unknown or repeated: want fixed-window`,
		"10/s token_bucket":          `"token_bucket" is unknown or repeated: want token-bucket`,
		"10 per":                     "no period",
		"10/month":                   `period "month" is not a duration`,
	} {
		_, err := ParseLimit(in)
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v: want ErrInvalid with %q", in, err, want)
		}
	}
}

// What parses can be printed and parsed again.
func FuzzParseLimit(f *testing.F) {
	for _, s := range []string{"2000/1m", "2000/1m burst=200", "5/100ms token-bucket", "1/h fixed-window", "9/9us", "/", "10 per 5 minutes", "7/Days burst=2", "2,000/min"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ParseLimit(s)
		if err != nil {
			if !errors.Is(err, ErrInvalid) || l != (Limit{}) {
				t.Errorf("%q: %+v, %v: want a zero Limit and ErrInvalid", s, l, err)
			}
			return
		}
		want, err := l.Normal()
		if err != nil {
			t.Fatalf("%q parsed to a limit that is not valid: %v", s, err)
		}
		again, err := ParseLimit(l.String())
		if err != nil {
			t.Fatalf("%q printed as %q, which does not parse: %v", s, l, err)
		}
		if got, err := again.Normal(); got != want || err != nil {
			t.Errorf("%q printed as %q, which means %+v: want %+v", s, l, got, want)
		}
	})
}
