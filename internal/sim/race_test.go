//go:build race

package sim

// shuffled: the race detector has goroutines run in any order, so that a seed is another run each time.
const shuffled = true
