// Package runner runs cases: in which order and how many at a time, and what a case says. It does not know what a case
// is about.
package runner

import "sync"

// Job is a case as far as its order matters.
type Job struct {
	Long  bool // it takes longer than most, and begins before them, so that it is not alone at the end
	Alone bool // it disturbs others
}

// Each calls fn with the index of every job: so many at a time, and then one at a time those that disturb others.
func Each(jobs []Job, parallel int, fn func(i int)) {
	slots := make(chan struct{}, parallel)
	var wg sync.WaitGroup
	for _, i := range sideBySide(jobs) {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			fn(i)
		})
	}
	wg.Wait()
	for i := range jobs {
		if jobs[i].Alone {
			fn(i)
		}
	}
}

// sideBySide gives the jobs that disturb no others, the long ones first.
func sideBySide(jobs []Job) []int {
	var long, list []int
	for i, j := range jobs {
		switch {
		case j.Alone:
		case j.Long:
			long = append(long, i)
		default:
			list = append(list, i)
		}
	}
	return append(long, list...)
}
