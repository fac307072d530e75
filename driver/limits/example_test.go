package limits_test

import (
	"fmt"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
)

// A store reads a state, takes from it at the time of its clock, and stores it if it changed.
func ExampleState() {
	limit, err := driver.Limit{Rate: 2, Per: time.Minute}.Normal()
	if err != nil {
		fmt.Println(err)
		return
	}
	var state limits.State
	now := time.Date(2026, 11, 21, 8, 15, 0, 0, time.UTC).UnixMicro()
	for range 3 {
		answer, changed := state.Take(limit, now, driver.Ask{Min: 1, N: 1})
		fmt.Println(answer.N, answer.RetryAfter, changed)
	}
	stored, err := state.MarshalBinary()
	fmt.Println(limits.Name(limit), len(stored) > 0, err, state.Expiry(limit, now))
	// Output:
	// 1 0s true
	// 1 0s true
	// 0 1m0.6s false
	// sw:60000000 true <nil> 1m0.6s
}

// A client of a store that counts on its clients' clocks meets a state that one has made whose clock is a day ahead.
func ExampleAhead() {
	limit, err := driver.Limit{Rate: 2, Per: time.Second}.Normal()
	if err != nil {
		panic(err)
	}
	now := time.Now().UnixMicro()
	var s limits.State
	s.Take(limit, now+24*time.Hour.Microseconds(), driver.Ask{Min: 2, N: 2})

	var watch limits.Ahead
	ahead, warn := watch.Look(&s, "name at the store", 7, limit, now)
	fmt.Println(ahead, warn)
	// Output: 24h0m0s true
}
