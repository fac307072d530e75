package hold

import (
	"testing"
	"time"
)

// Many attempts in the queue of one key cost each of them the same, however many they are.
func TestQueueIsLinear(t *testing.T) {
	for name, pass := range map[string]func(n int){
		"tries behind a leader": func(n int) {
			s := &slot{leader: &Attempt{}}
			for range n {
				a := &Attempt{try: true}
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
				s.join(&Attempt{})
			}
			for s.queue.first != nil {
				s.queue.remove(s.queue.first)
				s.turnAway()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			const queues, of = 40, 1000
			few, many := time.Hour, time.Hour
			for range 5 {
				start := time.Now()
				for range queues {
					pass(of)
				}
				few = min(few, time.Since(start))
				start = time.Now()
				pass(queues * of)
				many = min(many, time.Since(start))
			}
			// They take the same, or forty times as long if each looks at all others.
			if many > 10*few {
				t.Errorf("%d queues of %d take %v, and one of %d takes %v: more than ten times as long", queues, of, few, queues*of, many)
			}
		})
	}
}
