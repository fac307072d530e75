package conformance

import (
	"sync"
	"testing"
)

// A case that waits to run again leaves its place to the next one.
func TestRunAgainMakesRoom(t *testing.T) {
	first := true
	var next sync.WaitGroup
	next.Add(1)
	s := &Suite{Harness: memoryHarness(), Parallel: 1}
	r, err := s.prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.stop()
	r.cases = []Case{
		{ID: "LOCK-01", run: func(e *env) {
			if first {
				first = false
				e.LeaveOpen("the first time")
				return
			}
			next.Wait() // for ever, if the other does not run
		}},
		{ID: "LOCK-02", run: func(*env) { next.Done() }},
	}
	r.alone.RLock() // as a case beside them
	var outcomes sync.Map
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.each(func(c *Case, free func()) { outcomes.Store(c.ID, r.runCase(t.Context(), c, free).Outcome) })
	}()
	next.Wait()
	r.alone.RUnlock()
	<-ended
	for _, id := range []string{"LOCK-01", "LOCK-02"} {
		if o, _ := outcomes.Load(id); o != Pass {
			t.Errorf("%s: %v, want %s", id, o, Pass)
		}
	}
}
