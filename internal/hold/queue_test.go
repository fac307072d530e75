package hold

import "testing"

// A try behind many does not walk the queue to learn whether it is refused. What is ahead of it is set so that a walk
// would end with another answer than the count of those that wait.
func TestTryDoesNotWalkTheQueue(t *testing.T) {
	s := &slot{leader: &Attempt{}}
	for range 3 {
		s.join(&Attempt{try: true})
	}
	a := &Attempt{try: true}
	s.join(a)
	if s.full(a) {
		t.Error("a try behind tries alone is refused")
	}
	s.queue.first.try = false // which is not counted
	if s.full(a) {
		t.Error("a try at the end of the queue looks at those ahead of it")
	}
}

// Who was turned away once is not looked at again, however often the key is refused: each leader of a long queue
// is refused once.
func TestRefusalsDoNotWalkTheQueue(t *testing.T) {
	s, told := &slot{}, 0
	join := func() {
		s.join(&Attempt{try: true, spec: Spec{Refused: func() { told++ }}})
	}
	const n = 10
	join() // leads
	for range n {
		join()
	}
	s.turnAway()
	if told != n {
		t.Fatalf("%d were told, want all %d", told, n)
	}
	for a := s.queue.first; a != nil; a = a.behind {
		if !a.out {
			t.Error("a try was not turned away")
		}
		a.out = false
	}
	for s.queue.first != nil {
		s.queue.remove(s.queue.first)
		s.turnAway()
	}
	if told != n {
		t.Errorf("%d were told after all had left, want each once: %d", told, n)
	}
	join()
	s.turnAway()
	if told != n+1 {
		t.Errorf("%d were told after one more came, want %d", told, n+1)
	}
}
