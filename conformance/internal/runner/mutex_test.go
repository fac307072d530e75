package runner

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A Lock is granted when nothing runs, and others begin until then.
func TestAloneWhenNothingRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMutex(time.Hour)
		s.RLock()
		taken := false
		go func() {
			s.Lock()
			taken = true
		}()
		synctest.Wait()
		s.RLock() // does not wait
		synctest.Wait()
		if taken {
			t.Error("it was held alone while a case ran")
		}
		s.RUnlock()
		s.RUnlock()
		synctest.Wait()
		if !taken {
			t.Error("nothing runs, and it was not held alone")
		}
		s.Unlock()
	})
}

// Once a Lock has waited for long, no other case begins until all that wait have had it, one at a time.
func TestAloneAfterALongWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMutex(time.Minute)
		var mu sync.Mutex
		var seen []string
		see := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, what)
		}
		s.RLock()
		for range 2 {
			go func() {
				s.Lock()
				see("alone")
				time.Sleep(time.Second)
				see("no more")
				s.Unlock()
			}()
		}
		time.Sleep(2 * time.Minute)
		go func() {
			s.RLock()
			see("shared")
			s.RUnlock()
		}()
		synctest.Wait()
		if len(seen) > 0 {
			t.Errorf("while a case runs: %v", seen)
		}
		s.RUnlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []string{"alone", "no more", "alone", "no more", "shared"}; !slices.Equal(seen, want) {
			t.Errorf("saw %v, want %v", seen, want)
		}
	})
}
