package hold

import "testing"

// A try behind many does not walk the queue to learn whether it is refused. What is ahead of it is set so that a walk
// would end with another answer than the count of those that wait.
func TestTryDoesNotWalkTheQueue(t *testing.T) {
	q := &queue[int]{leader: &ticket[int]{}}
	for range 3 {
		q.join(&ticket[int]{try: true}, false)
	}
	k := &ticket[int]{try: true}
	q.join(k, false)
	if q.full(k, false) {
		t.Error("a try behind tries alone is refused")
	}
	q.first.try = false // which is not counted
	if q.full(k, false) {
		t.Error("a try at the end of the queue looks at those ahead of it")
	}
}

// Who was turned away once is not looked at again, however often the key is refused: each leader of a long queue
// is refused once.
func TestRefusalsDoNotWalkTheQueue(t *testing.T) {
	q, told := &queue[int]{}, 0
	join := func() { q.join(&ticket[int]{try: true}, false) }
	tell := func(int) { told++ }
	const n = 10
	join() // leads
	for range n {
		join()
	}
	q.turnAway(tell)
	if told != n {
		t.Fatalf("%d were told, want all %d", told, n)
	}
	for k := q.first; k != nil; k = k.behind {
		if !k.out {
			t.Error("a try was not turned away")
		}
		k.out = false
	}
	for q.first != nil {
		q.remove(q.first)
		q.turnAway(tell)
	}
	if told != n {
		t.Errorf("%d were told after all had left, want each once: %d", told, n)
	}
	join()
	q.turnAway(tell)
	if told != n+1 {
		t.Errorf("%d were told after one more came, want %d", told, n+1)
	}
}
