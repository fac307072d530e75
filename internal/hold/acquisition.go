package hold

import "github.com/coordgo/coord/internal/clock"

// acquisition is what the store knows of an attempt, and then of the hold that it was granted: the id, and the
// calls for it.
type acquisition struct {
	spec         Spec
	id           string        // given before the first call
	unknown      int           // calls that may have taken the lock without our knowing
	unknownUntil clock.Instant // until when such a call may still have effect
}

// mayHave notes a call that was given up at now and may have taken the lock, or may
// yet do so: the store may apply what it still has in its hands.
func (q *acquisition) mayHave(now clock.Instant) {
	q.unknown++
	q.unknownUntil = now.Add(q.spec.Lease)
}

// leftBehind is what the janitor has to remove for calls of unknown outcome, nil if there were none.
func (q *acquisition) leftBehind() *task {
	if q.unknown == 0 {
		return nil
	}
	return &task{key: q.spec.Key, id: q.id, until: q.unknownUntil.Mono, unknown: q.unknown, passOn: q.spec.PassOn}
}
