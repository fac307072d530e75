package hold

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/errs"
	"github.com/coordgo/coord/observe"
)

// A loss that was on its way to a tenure when that was handed over is no loss of the next.
func TestLossOfAnEarlierTenure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t, &fakeStore{})
		first := lock(t, m, 0, nil)
		waiting := another(t, m, nil)
		release(t, first)
		next := <-waiting
		m.lose(first.h, first, errs.ErrMaxHold)
		if err := next.Check(); err != nil || isClosed(next.Done()) {
			t.Errorf("the next tenure has ended: %v", err)
		}
		release(t, next)
	})
}

// holdUp keeps whoever ends the tenure, once it has ended, until goOn is called.
func holdUp(t *testing.T, tenure *Tenure) (ended <-chan struct{}, goOn func()) {
	is, wait := make(chan struct{}), make(chan struct{})
	tenure.Watch(&Watcher{Cancel: func(error) {
		close(is)
		<-wait
	}})
	goOn = sync.OnceFunc(func() { close(wait) })
	t.Cleanup(goOn)
	return is, goOn
}

// A loss that comes while a release is under way is found by the hand-over.
func TestNothingIsHandedOffAfterALoss(t *testing.T) {
	for name, lose := range map[string]func(m *Manager, h *hold){
		"told by the store": func(m *Manager, h *hold) { m.LossPushed("k", h.by.id, errWire) },
		"by the clock":      func(_ *Manager, h *hold) { time.Sleep(testTTL) },
		"by the clock, and renewed late": func(m *Manager, h *hold) {
			time.Sleep(testTTL)
			m.renewed(h, granted{driver.Grant{Token: h.stored, TTL: testTTL}, m.clock.Now()}, nil)
		},
		"in a renewal": func(m *Manager, h *hold) { m.renewed(h, granted{}, driver.ErrNotHeld) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeStore{}
				m := newManager(t, f)
				first := lock(t, m, 0, nil)
				waiting := another(t, m, nil)
				ended, goOn := holdUp(t, first)
				f.setBroken(strings.HasPrefix(name, "by the clock"))
				unlocked := make(chan error, 1)
				go func() { unlocked <- first.Release(t.Context()) }()
				<-ended
				lose(m, first.h)
				f.setBroken(false)
				goOn()
				if err := <-unlocked; err != nil {
					t.Errorf("Release of what was not lost before: %v", err)
				}
				next := <-waiting
				if next.h == first.h {
					t.Error("a hold that was lost was handed over")
				}
				release(t, next)
				time.Sleep(2 * taskGrace)
				wantNothing(t, m)
			})
		})
	}
}

// A hold whose release is being told when the Manager closes is given back like all others.
func TestCloseWhileAReleaseIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStore{}
		m := newManager(t, f)
		first := lock(t, m, 0, nil)
		waits := make(chan error, 1)
		go func() {
			_, err := new(Attempt).Run(t.Context(), m, Spec{Name: "k", Key: "k", Lease: testTTL, Owner: nobody{}}, false, nil)
			waits <- err
		}()
		synctest.Wait()
		ended, goOn := holdUp(t, first)
		unlocked := make(chan error, 1)
		go func() { unlocked <- first.Release(t.Context()) }()
		<-ended
		m.Stop()
		m.GiveBack(t.Context())
		if f.holders["k"] != "" {
			t.Error("the key is still taken")
		}
		wantErr(t, <-waits, driver.ErrClosed)
		goOn()
		if err := <-unlocked; err != nil {
			t.Error(err)
		}
		wantNothing(t, m)
	})
}

// An observer that ends the goroutine, as a test's FailNow does, leaves nothing behind: no hold, and no place in the queue.
func TestObserverEndsTheGoroutine(t *testing.T) {
	for in, o := range map[string]observe.Observer{
		"WaitBegan": {WaitBegan: func(context.Context, observe.WaitBegan) { runtime.Goexit() }},
		"Acquired":  {Acquired: func(context.Context, observe.Acquired) { runtime.Goexit() }},
	} {
		t.Run(in, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newManager(t, &fakeStore{})
				first := lock(t, m, 0, nil)
				done := make(chan struct{})
				go func() {
					defer close(done)
					lock(t, m, 0, traced(t, o))
				}()
				synctest.Wait()
				other := another(t, m, nil)
				release(t, first)
				<-done
				release(t, <-other)
				time.Sleep(2 * taskGrace)
				wantNothing(t, m)
			})
		})
	}
}

// halfway hands first off to an attempt whose goroutine has not seen that yet.
func halfway(t *testing.T, first *Tenure) (next *Tenure, wake func()) {
	m := first.h.m
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.successor(first.h, m.clock.Now())
	if a == nil {
		t.Fatal("no successor")
	}
	seen := a.wake
	a.wake = make(chan struct{}, 1) // not the one that it waits for
	first.h.finish(ErrReleased, notLost)
	m.give(first.h, a)
	a.wake = seen
	return a.tenure, a.signal
}

// A hold that is lost between two tenures is nobody's: its successor begins again, as the first.
func TestLossOnTheWay(t *testing.T) {
	for name, o := range map[string]observe.Observer{"": {}, "traced": {Lost: func(context.Context, observe.Lost) {}}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newManager(t, &fakeStore{})
				first := lock(t, m, 0, traced(t, o))
				successor, other := another(t, m, traced(t, o)), another(t, m, traced(t, o))
				lost, wake := halfway(t, first)
				m.lose(first.h, lost, errs.ErrLost)
				wake()
				next := <-successor
				if next.h == first.h || next.Check() != nil {
					t.Errorf("was given the lost hold, token %d: %v", next.Token(), next.Check())
				}
				release(t, next)
				release(t, <-other)
				time.Sleep(2 * taskGrace)
				wantNothing(t, m)
			})
		})
	}
}

// A hand-over that fails, as each does whose lease is very short, leaves no link between the two holds: on a key that is
// always contended they would be a chain without end.
func TestFailedHandOverKeepsNothing(t *testing.T) {
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
			t.Fatal("handed over: the test tests nothing")
		}
		first = nil
		runtime.GC()
		if gone.Value() != nil {
			t.Error("the next hold keeps the one before")
		}
		release(t, next)
	})
}

// A process that was frozen in the middle of a hand-over gives the hold up.
func TestFrozenOnTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t, &fakeStore{})
		first := lock(t, m, 0, nil)
		successor := another(t, m, nil)
		_, wake := halfway(t, first)
		first.h.deadline.Store(m.clock.Now()) // as if so much time had passed
		wake()
		next := <-successor
		if next.h == first.h || next.Check() != nil {
			t.Errorf("was given the lapsed hold: %v", next.Check())
		}
		release(t, next)
	})
}

// A hold whose MaxHold is over in the moment in which it is handed over is looked after all the same: it is renewed, and its
// loss is seen.
func TestHandOverCrossesMaxHold(t *testing.T) {
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
				ended, goOn := holdUp(t, first)
				unlocked := make(chan error, 1)
				go func() { unlocked <- first.Release(t.Context()) }()
				<-ended
				time.Sleep(25 * time.Millisecond) // the scheduler looks, for MaxHold
				goOn()
				if err := <-unlocked; err != nil {
					t.Error(err)
				}
				next := <-waiting
				if next.h != first.h {
					t.Fatal("not handed over")
				}
				after(t, f, next)
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
	if further, _ := m.serve(m.clock.Now(), []*hold{tenure.h}); len(further) > 0 {
		t.Error("served further")
	}
	wantNothing(t, m)
}

// A renewal that shows another hold's token is the loss of whoever has the hold then.
func TestWrongTokenAfterHandOver(t *testing.T) {
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
