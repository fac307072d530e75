package hold

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/errs"
)

// A loss that was on its way to a tenure when that was handed off is no loss of the next.
func TestLossOfAnEarlierTenure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t, &fakeStore{})
		first := lock(t, m, 0, nil)
		waiting := another(t, m, nil)
		release(t, first)
		next := <-waiting
		m.lose(first.h, first.tenure, errs.ErrMaxHold)
		if err := next.Check(); err != nil || isClosed(next.Done()) {
			t.Errorf("the next tenure has ended: %v", err)
		}
		release(t, next)
	})
}

// A loss that comes while a release is under way is found by the hand-off.
func TestNothingIsHandedOffAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t, &fakeStore{})
		first := lock(t, m, 0, nil)
		waiting := another(t, m, nil)
		h, now := first.h, m.clock.Now()
		h.end(nil, errs.ErrLost, Expired) // the first half of a loss: the slot is still the hold's
		if m.handTo(t.Context(), h, first.tenure, now) {
			t.Error("a hold that was lost was handed off")
		}
		if h.current() != first.tenure {
			t.Error("a hold that was lost has another tenure")
		}
		m.sched.remove(h)
		m.cleanUp(h)
		m.leaveSlot(h)
		release(t, <-waiting)
	})
}

// handOffHalf is the first half of handTo: the successor has not been told.
func handOffHalf(t *testing.T, m *Manager, first *Tenure) *waiter {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.successor(first.h, m.clock.Now())
	if _, ok := m.handOff(first.h, first.tenure, a, m.clock.Now()); !ok {
		t.Fatal("not handed off")
	}
	m.vacate(m.slots["k"], a)
	return a
}

// A hold that is lost between two tenures is nobody's: its successor begins again.
func TestLossOnTheWay(t *testing.T) {
	for name, trace := range map[string]Trace{"": nil, "traced": noTrace{}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newManager(t, &fakeStore{})
				first := lock(t, m, 0, trace)
				successor, other := another(t, m, trace), another(t, m, trace)
				a := handOffHalf(t, m, first)
				var wg sync.WaitGroup
				wg.Go(func() { m.lose(first.h, first.h.current(), errs.ErrLost) })
				for !a.passed.over.Load() {
					runtime.Gosched()
				}
				a.handed.Store(true)
				a.ticket.signal()
				wg.Wait()
				for range 2 {
					var next *Tenure
					select { // whichever of them the store has granted meanwhile
					case next = <-successor:
					case next = <-other:
					}
					if next.h == first.h || next.Check() != nil {
						t.Errorf("was given the lost hold, token %d: %v", next.Token(), next.Check())
					} else {
						release(t, next)
					}
				}
				time.Sleep(2 * taskGrace)
				wantNothing(t, m)
			})
		})
	}
}

// A hand-off that fails, as each does whose lease is very short, leaves no link between the two holds: on a key that is
// always contended they would be a chain without end.
func TestFailedHandOffKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t, &fakeStore{})
		short := Spec{Name: "k", Key: "k", Lease: 12 * time.Millisecond, Owner: nobody{}}
		first := lockAs(t, m, short, nil)
		gone := weak.Make(first.h)
		waiting := make(chan *Tenure, 1)
		go func() { waiting <- lockAs(t, m, short, nil) }()
		synctest.Wait()
		release(t, first)
		next := <-waiting
		if next.h == first.h {
			t.Fatal("handed off: the test tests nothing")
		}
		first = nil
		runtime.GC()
		if gone.Value() != nil {
			t.Error("the next hold keeps the one before")
		}
		release(t, next)
	})
}

// A process that was frozen in the middle of a hand-off gives the hold up.
func TestFrozenOnTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t, &fakeStore{})
		first := lock(t, m, 0, nil)
		successor := another(t, m, nil)
		a := handOffHalf(t, m, first)
		first.h.deadline.Store(m.clock.Now()) // as if so much time had passed
		a.handed.Store(true)
		a.ticket.signal()
		next := <-successor
		if next.h == first.h || next.Check() != nil {
			t.Errorf("was given the lapsed hold: %v", next.Check())
		}
		release(t, next)
	})
}

// A hold that the scheduler found overdue in the moment in which it was handed off is
// looked after all the same: it is renewed, and its loss is seen.
func TestHandOffCrossesMaxHold(t *testing.T) {
	for name, after := range map[string]func(t *testing.T, f *fakeStore, next *Tenure){
		"renewed": func(t *testing.T, f *fakeStore, next *Tenure) {
			time.Sleep(2 * testTTL)
			if err, n := next.Check(), f.renewed(); err != nil || n == 0 {
				t.Errorf("%v after %d renewals", err, n)
			}
			release(t, next)
		},
		"lost": func(t *testing.T, f *fakeStore, next *Tenure) {
			f.setBroken(true)
			select {
			case <-next.Done():
			case <-time.After(2 * testTTL):
				t.Error("Done is open after the deadline")
			}
			f.setBroken(false)
			wantErr(t, next.Release(t.Context()), errs.ErrLost)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeStore{}
				m := newManager(t, f)
				first := lock(t, m, 20*time.Millisecond, nil)
				waiting := another(t, m, nil)
				now := m.clock.Now() // when Release looks
				m.sched.mu.Lock()    // the first half of look
				rest := m.sched.collect(now.Add(20 * time.Millisecond))
				m.sched.mu.Unlock()
				if n := m.sched.size(); n != 0 || !m.handTo(t.Context(), first.h, first.tenure, now) {
					t.Fatalf("%d not overdue, or not handed off", n)
				}
				rest()
				after(t, f, <-waiting)
				time.Sleep(2 * taskGrace)
				wantNothing(t, m)
			})
		})
	}
}

// A hold that has ended is not looked after, whoever was first.
func TestNoLookAfterTheEnd(t *testing.T) {
	m := newManager(t, &fakeStore{})
	tenure := lock(t, m, 0, nil)
	release(t, tenure)
	m.sched.add(tenure.h)
	m.endAll([]overdue{{h: tenure.h, t: tenure.tenure, cause: errs.ErrLost}})
	wantNothing(t, m)
}

// A renewal that shows another hold's token is the loss of whoever has the hold then.
func TestWrongTokenAfterHandOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t, &fakeStore{})
		first := lock(t, m, 0, nil)
		waiting := another(t, m, nil)
		release(t, first)
		next := <-waiting
		m.renewed(first.h, granted{driver.Grant{Token: 99, TTL: testTTL}, m.clock.Now()}, nil)
		if !isClosed(next.Done()) {
			t.Error("Done is open after the loss")
		}
		wantErr(t, next.Release(t.Context()), errs.ErrLost)
		if err := first.Check(); errors.Is(err, errs.ErrLost) {
			t.Errorf("an old tenure lost what it did not have: %v", err)
		}
	})
}
