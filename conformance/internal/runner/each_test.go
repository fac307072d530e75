package runner

import (
	"slices"
	"testing"
)

// A job that takes long begins before the others. Among the others the order stays. Jobs that disturb others come
// last, one at a time.
func TestEach(t *testing.T) {
	jobs := []Job{{}, {Long: true, Alone: true}, {Long: true}, {}, {Alone: true}, {Long: true}}
	if list := sideBySide(jobs); !slices.Equal(list, []int{2, 5, 0, 3}) {
		t.Errorf("side by side in the order %v", list)
	}
	var seen []int
	Each(jobs, 1, func(i int) { seen = append(seen, i) })
	if !slices.Equal(seen, []int{2, 5, 0, 3, 1, 4}) {
		t.Errorf("in the order %v", seen)
	}
}
