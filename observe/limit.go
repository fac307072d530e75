package observe

import (
	"time"

	"github.com/coordgo/coord/driver"
)

// Decision is what came of a request for permits.
type Decision struct {
	// Op is "allow", "allowall", "wait" or "reserve"; of Charged it is "charge" or "settle".
	Op string
	// Backend is the store's name: "redis".
	Backend string
	Key     string
	Limit   driver.Limit
	// Asked and Granted permits. Of Charged both are what was debited, below 0 what was to be given back.
	Asked, Granted int
	// Remaining permits that could be had at once, -1 where that is not known.
	Remaining int
	// RetryAfter, of a denial; of Charged it is when one permit is there.
	RetryAfter time.Duration
	// Took is how long the decision took; of a "wait", with the waiting.
	Took time.Duration
	// Delay until the permits of a "reserve" are due.
	Delay time.Duration
	// Cached: the denial was remembered, and the store was not asked.
	Cached bool
	// Leased: the permits had been taken in advance, and the store was not asked.
	Leased bool
	// Shadow: it is the decision of a rule in shadow mode, of package rules, and nobody acts upon it.
	Shadow bool
	// Err is the store's error, of Degraded, or why a "wait" ended.
	Err error
}

// LeaseEnded is permits that were taken in advance and are over.
type LeaseEnded struct {
	// Backend is the store's name: "redis".
	Backend string
	Key     string
	Limit   driver.Limit
	// Spent permits, those that were given back, and those that were lost: debited at the
	// store, and spent by nobody. A request that comes just as the lease ends may be among
	// the spent, although it was answered otherwise.
	Spent, Returned, Wasted int
}
