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
