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
	q := &queue[int]{}
	join := func() { q.join(&ticket[int]{try: true}, false) }
	// turned counts whom a refusal turns away.
	turned := func() (n int) {
		q.turnAway()
		for k := q.first; k != nil; k = k.behind {
			if k.out {
				n++
			}
			k.out = false
		}
		return n
	}
	const n = 10
	join() // leads
	for range n {
		join()
	}
	if got := turned(); got != n {
		t.Fatalf("%d were turned away, want all %d", got, n)
	}
	for q.first != nil {
		if got := turned(); got != 0 {
			t.Errorf("%d were turned away again, want none", got)
		}
		q.remove(q.first)
	}
	join()
	if got := turned(); got != 1 {
		t.Errorf("%d were turned away after one more came, want it alone", got)
	}
}
