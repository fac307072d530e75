package etcd

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
)

// One after the other, as long as nobody takes longer than patience.
func TestTurnIsExclusive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turn turn
		var wg sync.WaitGroup
		inside := 0
		start := time.Now()
		for range 20 {
			wg.Go(func() {
				done, err := turn.take(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				defer done()
				if inside++; inside != 1 {
					t.Errorf("%d at a time", inside)
				}
				time.Sleep(patience * 3 / 4)
				inside--
			})
		}
		wg.Wait()
		if took := time.Since(start); took != 20*patience*3/4 {
			t.Errorf("20 turns took %v", took)
		}
	})
}

// Of many who wait for one that hangs, one goes on after patience, and the others
// follow it: not all of them at once.
func TestTurnIsOvertakenByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turn turn
		hanging, err := turn.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var wg sync.WaitGroup
		inside := 0
		for range 10 {
			wg.Go(func() {
				done, err := turn.take(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if inside++; inside != 1 {
					t.Errorf("%d went on together", inside)
				}
				time.Sleep(time.Millisecond)
				inside--
				done()
			})
		}
		wg.Wait()
		if took := time.Since(start); took != patience+10*time.Millisecond {
			t.Errorf("ten turns after one that hangs took %v: want %v and 1ms each", took, patience)
		}
		hanging()
		done, err := turn.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		done()
	})
}

// What was overtaken comes back while its successor has the turn, which stays taken.
func TestTurnOfTheOvertakenGoesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turn turn
		first, err := turn.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		second, err := turn.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		first()
		ctx, cancel := context.WithTimeout(t.Context(), patience/2)
		defer cancel()
		if _, err := turn.take(ctx); !errors.Is(err, driver.ErrNotSent) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("taken under a context that ended before patience: %v", err)
		}
		second()
	})
}
