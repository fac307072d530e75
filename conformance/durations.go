package conformance

import (
	_ "embed"
	"encoding/json"
	"sync"
	"time"
)

// durations are what cases take, in milliseconds: the median over the stores of the
// reports that docs/generated/compatibility.md is made of, whose generator writes the file.
//
//go:embed durations.json
var durations []byte

var usualTimes = sync.OnceValue(func() map[string]int64 {
	times := make(map[string]int64)
	if err := json.Unmarshal(durations, &times); err != nil {
		panic(err) // the file is part of this package
	}
	return times
})

// usual is how long a case takes on a usual store, about.
func usual(c *Case) time.Duration {
	ms, ok := usualTimes()[c.ID]
	if !ok {
		ms = 1000
	}
	return time.Duration(ms) * time.Millisecond
}
