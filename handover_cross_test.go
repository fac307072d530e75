package coord

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
)

// A hold that the scheduler found overdue in the moment in which it was handed over is
// looked after all the same: it is renewed, and its loss is seen.
func TestHandOverCrossesMaxHold(t *testing.T) {
	for name, after := range map[string]func(t *testing.T, f *fakeStore, l *Lock){
		"renewed": func(t *testing.T, f *fakeStore, l *Lock) {
			time.Sleep(2 * DefaultTTL)
			if err := l.Err(); err != nil || f.count("renew") == 0 {
				t.Errorf("%v after %d renewals", err, f.count("renew"))
			}
			unlock(t, l)
		},
		"lost": func(t *testing.T, f *fakeStore, l *Lock) {
			f.setIntercept(func(string, string) outcome { return outcome{before: errWire} })
			select {
			case <-l.Done():
			case <-time.After(2 * DefaultTTL):
				t.Error("Done is open after the deadline")
			}
			f.setIntercept(nil)
			wantErr(t, l.Unlock(t.Context()), ErrLost)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				c := newTestClient(t, f)
				l := must[*Lock](t)(c.Lock(t.Context(), "k", MaxHold(20*time.Millisecond)))
				waiter := waitFor(t.Context(), c)
				now := c.clock.Now() // when Unlock looks
				c.sched.mu.Lock()    // the first half of look
				lost, _ := c.sched.collect(now.Add(20 * time.Millisecond))
				c.sched.mu.Unlock()
				if len(lost) != 1 || !l.t.h.handTo(t.Context(), l.t, now) {
					t.Fatalf("%d lost, or not handed over", len(lost))
				}
				c.sched.endAll(lost)
				after(t, f, (<-waiter).lock(t))
				time.Sleep(2 * choreGrace)
				if left := c.leftovers(); left != (leftovers{}) {
					t.Errorf("left behind: %+v", left)
				}
			})
		})
	}
}

// A hold that has ended is not looked after, whoever was first.
func TestNoLookAfterTheEnd(t *testing.T) {
	c := newTestClient(t, newFake())
	l := must[*Lock](t)(c.Lock(t.Context(), "k"))
	unlock(t, l)
	c.sched.add(l.t.h)
	c.sched.endAll([]loss{{t: l.t, cause: ErrLost}})
	if left := c.leftovers(); left != (leftovers{}) {
		t.Errorf("left behind: %+v", left)
	}
}

// A renewal that shows another hold's token is the loss of whoever has the hold then.
func TestWrongTokenAfterHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClient(t, newFake())
		l := must[*Lock](t)(c.Lock(t.Context(), "k"))
		waiter := waitFor(t.Context(), c)
		unlock(t, l)
		next := (<-waiter).lock(t)
		l.t.h.renewed(granted{driver.Grant{Token: 99, TTL: DefaultTTL}, c.clock.Now()}, nil)
		if !isClosed(next.Done()) {
			t.Error("Done is open after the loss")
		}
		wantErr(t, next.Unlock(t.Context()), ErrLost)
		if errors.Is(l.Err(), ErrLost) {
			t.Errorf("an old handle lost what it did not have: %v", l.Err())
		}
	})
}
