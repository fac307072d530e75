package postgres

import (
	"testing"
	"testing/synctest"
	"time"
)

// The estimate is corrected by the first answer that shows it to be wrong, and not by slow ones.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		var set time.Duration // by how much the server's clock is ahead of this one
		// answer is of a request that takes to and fro to come and to go.
		answer := func(to, fro time.Duration) {
			sent := time.Now()
			time.Sleep(to)
			server := time.Now().Add(set)
			time.Sleep(fro)
			c.learn(sent, server)
		}
		want := func(what string, ahead time.Duration) {
			t.Helper()
			if now, known := c.now(); !known || now.Sub(time.Now().Add(set)) != ahead {
				t.Errorf("%s: the estimate is %v ahead, %v: want %v", what, now.Sub(time.Now().Add(set)), known, ahead)
			}
		}
		if _, known := c.now(); known {
			t.Error("known without an answer")
		}
		answer(5*time.Millisecond, time.Millisecond)
		want("the first answer", 5*time.Millisecond)
		answer(time.Second, 0)
		want("after a slow request", 5*time.Millisecond)
		answer(2*time.Millisecond, time.Second)
		want("after a faster one", 2*time.Millisecond)
		set = -time.Hour
		answer(3*time.Millisecond, 0)
		want("the server's clock was set back", 3*time.Millisecond)
		set = time.Hour
		answer(4*time.Millisecond, time.Millisecond)
		want("it was set ahead", 4*time.Millisecond)
		time.Sleep(clockLasts)
		if _, known := c.now(); known {
			t.Error("known without an answer of late")
		}
	})
}
