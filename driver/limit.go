package driver

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Algorithm is the rule by which a [Limit] counts.
type Algorithm int

// The algorithms. The zero Algorithm means SlidingWindow, or TokenBucket when
// Burst is set.
const (
	// SlidingWindow admits at most Rate permits in any period of length Per,
	// wherever it begins. The period is cut into [SubWindows] sub-windows, and
	// the oldest, which only partly overlaps, counts whole: the bound is
	// strict and the sustained yield SubWindows/(SubWindows+1) of Rate.
	SlidingWindow Algorithm = iota + 1
	// TokenBucket admits at most Burst + Rate·W/Per permits in any time W.
	TokenBucket
	// FixedWindow admits at most Rate permits in each window of length Per,
	// aligned to the Unix epoch of the store's clock. Up to 2·Rate may fall
	// into a period that straddles two windows.
	FixedWindow
)

// SubWindows is K, the number of sub-windows of a sliding window.
const SubWindows = 100

var algorithmNames = [...]string{SlidingWindow: "sliding-window", TokenBucket: "token-bucket", FixedWindow: "fixed-window"}

// String gives the name that configuration files use.
func (a Algorithm) String() string {
	if a > 0 && int(a) < len(algorithmNames) {
		return algorithmNames[a]
	}
	return "algorithm(" + strconv.Itoa(int(a)) + ")"
}

// ParseAlgorithm reads the name that String gives.
func ParseAlgorithm(name string) (Algorithm, error) {
	for a, n := range algorithmNames {
		if n != "" && n == name {
			return Algorithm(a), nil
		}
	}
	return 0, fmt.Errorf("%w: algorithm %q: want sliding-window, token-bucket or fixed-window", ErrInvalid, name)
}

// The ranges of a Limit.
const (
	// MaxRate is the largest Rate and Burst: 10^12, and 2^31-2 where an int has 32 bits.
	MaxRate = min(1_000_000_000_000, math.MaxInt-1) // an int can exceed it, and be refused
	// MinPer and MaxPer bound Per, which is a whole number of microseconds.
	MinPer = time.Millisecond
	MaxPer = 366 * 24 * time.Hour
	// maxCredits bounds what a bucket counts in, so that it is exact in the
	// float64 of Lua with room for reservations.
	maxCredits = 1 << 52
)

// Limit is a rate of permits: Rate in each Per, counted by Algorithm.
//
//	Limit{Rate: 2000, Per: time.Minute}             // strict: at most 2000 in any minute
//	Limit{Rate: 2000, Per: time.Minute, Burst: 200} // token bucket
type Limit struct {
	// Rate is the number of permits per Per, from 1 to MaxRate.
	Rate int
	// Per is the period, from MinPer to MaxPer in whole microseconds.
	Per time.Duration
	// Burst is the capacity of a TokenBucket, from 1 to MaxRate; 0 means Rate. Set
	// with a window algorithm it is ErrInvalid.
	Burst int
	// Algorithm is the rule; see Algorithm for what zero means.
	Algorithm Algorithm
}

// Normal fills in what the zero values mean and checks the ranges: the result
// has its Algorithm set and, for a TokenBucket, its Burst. ErrInvalid names the
// value that is out of range. Adapters are only given normal limits.
func (l Limit) Normal() (Limit, error) {
	if l.Rate < 1 || l.Rate > MaxRate {
		return l, fmt.Errorf("%w: rate %d: want 1 to %d", ErrInvalid, l.Rate, MaxRate)
	}
	if l.Per < MinPer || l.Per > MaxPer {
		return l, fmt.Errorf("%w: period %v: want %v to %v", ErrInvalid, l.Per, MinPer, MaxPer)
	}
	if l.Per%time.Microsecond != 0 {
		return l, fmt.Errorf("%w: period %v: want whole microseconds", ErrInvalid, l.Per)
	}
	if l.Burst < 0 || l.Burst > MaxRate {
		return l, fmt.Errorf("%w: burst %d: want 0 to %d", ErrInvalid, l.Burst, MaxRate)
	}
	switch l.Algorithm {
	case 0:
		l.Algorithm = SlidingWindow
		if l.Burst > 0 {
			l.Algorithm = TokenBucket
		}
	case SlidingWindow, FixedWindow, TokenBucket:
	default:
		return l, fmt.Errorf("%w: %v: want sliding-window, token-bucket or fixed-window", ErrInvalid, l.Algorithm)
	}
	if l.Algorithm != TokenBucket {
		if l.Burst > 0 {
			return l, fmt.Errorf("%w: burst %d with %v: only a token-bucket has a burst", ErrInvalid, l.Burst, l.Algorithm)
		}
		return l, nil
	}
	if l.Burst == 0 {
		l.Burst = l.Rate
	}
	if countable(l.Burst, l.Per.Microseconds()) { // most are, in microseconds
		return l, nil
	}
	if _, unit := l.Refill(); !countable(l.Burst, unit) {
		return l, fmt.Errorf("%w: burst %d at %d/%v: too fine to count exactly: want burst at most %d", ErrInvalid, l.Burst, l.Rate, l.Per, maxCredits/unit)
	}
	return l, nil
}

// countable reports whether burst permits of unit credits each are exact.
func countable(burst int, unit int64) bool {
	hi, lo := bits.Mul64(uint64(burst), uint64(unit))
	return hi == 0 && lo <= maxCredits
}

// Refill gives the rate of a bucket as exact integers: one permit is unit
// credits, and each microsecond refills rate credits, in lowest terms.
func (l Limit) Refill() (rate, unit int64) {
	rate, unit = int64(l.Rate), l.Per.Microseconds()
	a, b := rate, unit
	for b != 0 {
		a, b = b, a%b
	}
	return rate / a, unit / a
}

// Shares reports whether l and o count on one account of a key: windows of one
// algorithm and period, whatever their rates are, and token buckets of one rate,
// whatever their bursts are. It wants normal limits.
func (l Limit) Shares(o Limit) bool {
	if l.Algorithm != o.Algorithm {
		return false
	}
	if l.Per == o.Per {
		return l.Rate == o.Rate || l.Algorithm != TokenBucket
	}
	if l.Algorithm != TokenBucket {
		return false
	}
	hi, lo := bits.Mul64(uint64(l.Rate), uint64(o.Per))
	hi2, lo2 := bits.Mul64(uint64(o.Rate), uint64(l.Per))
	return hi == hi2 && lo == lo2
}

// Max is the most permits that one request can ever be granted: Burst for a token
// bucket, Rate for a window. It wants a normal limit.
func (l Limit) Max() int {
	if l.Algorithm == TokenBucket {
		return l.Burst
	}
	return l.Rate
}

// String gives the form that ParseLimit reads: "2000/1m", "2000/1m burst=200",
// "2000/1m fixed-window".
func (l Limit) String() string {
	s := strconv.Itoa(l.Rate) + "/" + shortDuration(l.Per)
	if l.Burst > 0 {
		s += " burst=" + strconv.Itoa(l.Burst)
	}
	switch {
	case l.Algorithm == 0, l.Algorithm == TokenBucket && l.Burst > 0, l.Algorithm == SlidingWindow && l.Burst == 0:
		return s
	}
	return s + " " + l.Algorithm.String()
}

// shortDuration is d.String() without trailing zero units: 1m, not 1m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
