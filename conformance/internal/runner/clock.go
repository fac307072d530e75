package runner

import "time"

// ClockMoved is by how much the wall clock went further than the monotonic clock since began.
func ClockMoved(began time.Time) time.Duration {
	now := time.Now()
	return now.Round(0).Sub(began.Round(0)) - now.Sub(began)
}
