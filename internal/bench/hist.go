package bench

import (
	"math/bits"
	"time"
)

// Hist counts durations in buckets three percent wide. It is of a fixed size, so that
// recording a time allocates nothing, however many there are. Its zero value is empty;
// it is not for several goroutines at once.
type Hist struct {
	counts [(64 - histBits) << histBits]uint32
	n      uint64
	max    time.Duration
}

// histBits is the logarithm of how many buckets there are to a doubling.
const histBits = 5

// Add counts one duration. One below zero counts as zero.
func (h *Hist) Add(d time.Duration) {
	d = max(d, 0)
	h.counts[bucket(uint64(d))]++
	h.n++
	h.max = max(h.max, d)
}

// Merge adds what other has counted.
func (h *Hist) Merge(other *Hist) {
	for i, c := range other.counts {
		h.counts[i] += c
	}
	h.n += other.n
	h.max = max(h.max, other.max)
}

// N is how many durations were counted.
func (h *Hist) N() int { return int(h.n) }

// Max is the longest.
func (h *Hist) Max() time.Duration { return h.max }

// Quantile is the duration that a share q of all does not exceed, to three percent; 0 of
// an empty Hist.
func (h *Hist) Quantile(q float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	rank := uint64(q * float64(h.n-1))
	var seen uint64
	for i, c := range h.counts {
		seen += uint64(c)
		if seen > rank {
			return min(middle(i), h.max)
		}
	}
	return h.max
}

// bucket numbers the small values one by one, and the others by their leading bits.
func bucket(v uint64) int {
	if v < 1<<histBits {
		return int(v)
	}
	e := bits.Len64(v) - histBits - 1
	return e<<histBits + int(v>>e)
}

// middle is the value in the middle of a bucket.
func middle(i int) time.Duration {
	if i < 1<<(histBits+1) {
		return time.Duration(i)
	}
	e := i>>histBits - 1
	low := uint64(i-e<<histBits) << e
	return time.Duration(low + (1<<e)/2)
}
