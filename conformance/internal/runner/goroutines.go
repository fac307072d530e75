package runner

import (
	"fmt"
	"runtime/pprof"
	"strings"
)

// Labelled counts the goroutines that have a label of package runtime/pprof, and gives their stacks.
func Labelled(label string) (n int, stacks string, err error) {
	var b strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		return 0, "", err
	}
	_, list, _ := strings.Cut(b.String(), "\n") // after the heading
	for _, block := range strings.Split(list, "\n\n") {
		if strings.Contains(block, label) {
			var same int // goroutines with this stack
			if _, err := fmt.Sscan(block, &same); err != nil {
				return 0, "", fmt.Errorf("number of goroutines: %w", err)
			}
			n += same
			stacks += block + "\n\n"
		}
	}
	return n, stacks, nil
}
