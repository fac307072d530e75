package hold

import "testing"

// queueOf makes a Manager whose key has a leader and n tries in the queue.
func queueOf(t *testing.T, n int) (*Manager, *key) {
	m := newManager(t, &fakeStore{})
	for range n + 1 {
		joins(t, m, true)
	}
	return m, m.keys["k"]
}

// joins has another attempt join.
func joins(t *testing.T, m *Manager, try bool) *Attempt {
	a := &Attempt{try: try}
	a.begin(m, Spec{Name: "k", Key: "k", Lease: testTTL, Owner: nobody{}})
	if _, err := a.join(); err != nil {
		t.Error(err)
	}
	t.Cleanup(func() { a.abandon(false) })
	return a
}

// A refusal of the leader ends the tries behind it and leaves those that wait. Whoever waits is not looked at for that, however
// often the key is refused: each leader of a long queue is refused once.
func TestRefusalsDoNotWalkTheQueue(t *testing.T) {
	const n = 10
	m, k := queueOf(t, n)
	waits := joins(t, m, false)
	turn := func() (turned int) {
		before := k.tries
		m.mu.Lock()
		defer m.mu.Unlock()
		m.turnAway(k)
		return before - k.tries
	}
	if got := turn(); got != n || k.first != waits || k.last != waits {
		t.Errorf("%d were turned away: want all %d, and the one that waits to stay", got, n)
	}
	k.first = nil // a walk from here would end in a panic, or find nobody
	if got := turn(); got != 0 {
		t.Errorf("%d were turned away again, want none", got)
	}
	k.first = waits
	if a := (&Attempt{try: true}); !k.refuses(a) {
		t.Error("a try behind one that waits queues")
	}
}
