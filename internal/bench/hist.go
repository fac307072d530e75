package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
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

// Add counts one duration. One below zero, which clocks of two processes can
// make, counts as zero.
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

// MarshalJSON writes the longest, and then index and count of each bucket that has any.
func (h *Hist) MarshalJSON() ([]byte, error) {
	list := []int64{int64(h.max)}
	for i, c := range h.counts {
		if c > 0 {
			list = append(list, int64(i), int64(c))
		}
	}
	return json.Marshal(list)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (h *Hist) UnmarshalJSON(data []byte) error {
	var list []int64
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	if len(list)%2 != 1 {
		return errors.New("a histogram is its longest time and pairs of numbers")
	}
	*h = Hist{max: time.Duration(list[0])}
	for pair := range slices.Chunk(list[1:], 2) {
		if pair[0] < 0 || pair[0] >= int64(len(h.counts)) || pair[1] < 0 || pair[1] > math.MaxUint32 {
			return fmt.Errorf("a histogram has no bucket %d of %d", pair[0], pair[1])
		}
		h.counts[pair[0]] = uint32(pair[1])
		h.n += uint64(pair[1])
	}
	return nil
}
