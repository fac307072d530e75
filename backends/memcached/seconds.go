package memcached

import (
	"math"
	"time"
)

const (
	// slack is by how many seconds an item may expire early. memcached compares whole seconds of
	// a clock that it reads about once a second: up to one is lost because the second in which an
	// item is stored has begun before, and one more because that reading is old. See the
	// package comment.
	slack = 2
	// maxRelative is the longest time that memcached counts from now. What is above it is
	// taken as a Unix time, and has usually passed.
	maxRelative = 30 * 24 * 60 * 60
	// clockMargin is added to an expiry that has to be a Unix time, for a server whose clock is
	// ahead.
	clockMargin = 60 * 60
	// atOnce makes an item expire with the write.
	atOnce = -1
)

// ceilSeconds is d in seconds, rounded up.
func ceilSeconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}

// lasting is the expiration of an item that lasts for at least that many seconds. It is never 0,
// which means for ever.
func lasting(seconds int64, now time.Time) int32 {
	n := max(seconds, 0) + slack
	if n > maxRelative {
		n = min(now.Unix()+n+clockMargin, math.MaxInt32)
	}
	return int32(n)
}
