package conformance

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Who wants it alone has it when nothing runs, and others begin until then.
func TestAloneWhenNothingRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSolo(time.Hour)
		s.share()
		taken := false
		go func() {
			s.take()
			taken = true
		}()
		synctest.Wait()
		s.share() // does not wait
		s.unshare()
		synctest.Wait()
		if taken {
			t.Error("it was had alone while a case ran")
		}
		s.unshare()
		synctest.Wait()
		if !taken {
			t.Error("nothing runs, and it was not had alone")
		}
		s.untake()
	})
}

// Once somebody has waited for long, no other case begins until all who wait have had it, one at a time.
func TestAloneAfterALongWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSolo(time.Minute)
		var mu sync.Mutex
		var seen []string
		see := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, what)
		}
		s.share()
		for range 2 {
			go func() {
				s.take()
				see("alone")
				time.Sleep(time.Second)
				see("no more")
				s.untake()
			}()
		}
		time.Sleep(2 * time.Minute)
		go func() {
			s.share()
			see("shared")
			s.unshare()
		}()
		synctest.Wait()
		if len(seen) > 0 {
			t.Errorf("while a case runs: %v", seen)
		}
		s.unshare()
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []string{"alone", "no more", "alone", "no more", "shared"}; !slices.Equal(seen, want) {
			t.Errorf("saw %v, want %v", seen, want)
		}
	})
}

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
				e.leaveOpen("the first time")
				return
			}
			next.Wait() // for ever, if the other does not run
		}},
		{ID: "LOCK-02", run: func(*env) { next.Done() }},
	}
	alone.share() // as a case of another suite
	var outcomes sync.Map
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.each(func(c *Case, free func()) { outcomes.Store(c.ID, r.runCase(t.Context(), c, free).Outcome) })
	}()
	next.Wait()
	alone.unshare()
	<-ended
	for _, id := range []string{"LOCK-01", "LOCK-02"} {
		if o, _ := outcomes.Load(id); o != Pass {
			t.Errorf("%s: %v, want %s", id, o, Pass)
		}
	}
}
