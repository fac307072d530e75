package permit

import (
	"slices"
	"testing"
	"time"
)

// To leave a long queue costs no more than to join it: nobody looks at all others.
func TestLeavingAQueueIsCheap(t *testing.T) {
	p, _ := newPool(t, nil)
	q := &waitQueue{waitQueues: &p.waits, key: limitKey{"k", demand(t, "k", ten, 1).Limit}, changed: make(chan struct{}, 1)}
	all := make([]*waiter, 100_000)
	start := time.Now()
	for i := range all {
		all[i] = &waiter{ctx: t.Context(), n: 1, deadline: start.Add(time.Hour), done: make(chan struct{})}
		q.add(all[i])
	}
	joining := time.Since(start)
	start = time.Now()
	for _, w := range slices.Backward(all) {
		q.leave(w)
	}
	if leaving := time.Since(start); leaving > 10*joining { // a hundred times and more, where each looks at all others
		t.Errorf("%d left in %v, and had come in %v", len(all), leaving, joining)
	}
}
