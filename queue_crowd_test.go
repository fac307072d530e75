package coord

import (
	"testing"
	"time"
)

// A crowd in the queue of one key costs each of its members the same, however many they are.
func TestCrowdInAQueueIsLinear(t *testing.T) {
	for name, pass := range map[string]func(n int){
		"tries behind a leader": func(n int) {
			s := &slot{leader: &attempt{}}
			for range n {
				a := &attempt{try: true}
				s.join(a)
				if s.full(a) {
					t.Error("a try behind tries alone is refused")
				}
			}
			s.turnAway()
			for a := s.queue.first; a != nil; a = a.behind {
				if !a.out {
					t.Error("a try was not turned away")
				}
			}
		},
		"leaders that are refused": func(n int) {
			s := &slot{}
			for range n {
				s.join(&attempt{})
			}
			for s.queue.first != nil {
				s.queue.remove(s.queue.first)
				s.turnAway()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			const crowds, of = 40, 1000
			few, many := time.Hour, time.Hour
			for range 5 {
				start := time.Now()
				for range crowds {
					pass(of)
				}
				few = min(few, time.Since(start))
				start = time.Now()
				pass(crowds * of)
				many = min(many, time.Since(start))
			}
			// They take the same, or forty times as long if each looks at all others.
			if many > 10*few {
				t.Errorf("%d crowds of %d take %v, and one of %d takes %v: more than ten times as long", crowds, of, few, crowds*of, many)
			}
		})
	}
}
