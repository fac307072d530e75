package child

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// lease is a lock in the test's hands.
type lease struct {
	done chan struct{}

	mu       sync.Mutex
	deadline time.Time
	ttl      time.Duration
	err      error
}

func (l *lease) TTL() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ttl
}

func (l *lease) Done() <-chan struct{} { return l.done }

func (l *lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

func (l *lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// until moves the end of the lease.
func (l *lease) until(t time.Time) { l.set(t, l.TTL()) }

func (l *lease) set(t time.Time, ttl time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deadline, l.ttl = t, ttl
}

// lose ends the hold; the lock does not tell.
func (l *lease) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = errors.New("lost")
}

// When TERM and KILL are due, counted from the start. The lease lasts 30s, the grace is 5s.
func TestWatch(t *testing.T) {
	const grace = 5 * time.Second
	for _, tt := range []struct {
		name       string
		happen     func(l *lease, began time.Time) // runs beside the watch
		term, kill time.Duration
	}{
		{"never renewed", func(*lease, time.Time) {}, 25 * time.Second, 30 * time.Second},
		{"renewed once", func(l *lease, began time.Time) {
			time.Sleep(10 * time.Second)
			l.until(began.Add(40 * time.Second))
		}, 35 * time.Second, 40 * time.Second},
		{"renewed after TERM was due: too late", func(l *lease, began time.Time) {
			time.Sleep(26 * time.Second)
			l.until(began.Add(56 * time.Second))
		}, 25 * time.Second, 30 * time.Second},
		{"short, and renewed for longer: the grace is that of the longer lease", func(l *lease, began time.Time) {
			l.set(began.Add(time.Second), time.Second)
			time.Sleep(20 * time.Millisecond)
			l.set(began.Add(30*time.Second), 30*time.Second)
		}, 25 * time.Second, 30 * time.Second},
		{"short, and never renewed: a third of it is the grace", func(l *lease, began time.Time) {
			l.set(began.Add(1200*time.Millisecond), 1200*time.Millisecond)
		}, 800 * time.Millisecond, 1200 * time.Millisecond},
		{"lost early: the grace counts", func(l *lease, _ time.Time) {
			time.Sleep(10 * time.Second)
			l.lose()
			close(l.done)
		}, 10 * time.Second, 15 * time.Second},
		{"lost late: the lease counts", func(l *lease, began time.Time) {
			time.Sleep(20 * time.Second)
			l.until(began.Add(22 * time.Second))
			l.lose()
			close(l.done)
		}, 20 * time.Second, 22 * time.Second},
		{"lost after its end: the grace counts", func(l *lease, began time.Time) {
			time.Sleep(12*time.Second + time.Millisecond)
			l.until(began)
			l.lose()
			close(l.done)
		}, 12*time.Second + time.Millisecond, 17*time.Second + time.Millisecond},
		{"found lost only by asking: within a second", func(l *lease, _ time.Time) {
			time.Sleep(10*time.Second + 500*time.Millisecond)
			l.lose()
		}, 11 * time.Second, 16 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				l := &lease{done: make(chan struct{}), deadline: began.Add(30 * time.Second), ttl: 30 * time.Second}
				go tt.happen(l, began)
				synctest.Wait()
				w := newWatch(l, Limits{Grace: grace})
				defer w.stop()
				var term time.Duration
				for {
					var due verdict
					select {
					case <-w.done:
						if w.lose() {
							due = termNow
						}
					case <-w.timer.C:
						due = w.look()
					}
					switch due {
					case termNow:
						if term != 0 {
							t.Error("TERM is due twice")
						}
						term = time.Since(began)
					case killNow:
						if kill := time.Since(began); term != tt.term || kill != tt.kill {
							t.Errorf("TERM after %v, KILL after %v, want %v and %v", term, kill, tt.term, tt.kill)
						}
						if w.told != Lost {
							t.Error("the lock does not count as lost")
						}
						time.Sleep(time.Hour) // until happen is through
						return
					}
				}
			})
		})
	}
}

// A command that survives KILL for a while gets it again.
func TestWatchKillsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lease{done: make(chan struct{}), deadline: time.Now().Add(time.Second)}
		w := newWatch(l, Limits{})
		defer w.stop()
		for kills := 0; kills < 3; {
			<-w.timer.C
			if w.look() == killNow {
				kills++
			}
		}
		if took := time.Since(l.Deadline()); took != 2*glance {
			t.Errorf("the third KILL came %v after the end of the lease, want %v", took, 2*glance)
		}
	})
}

// A command that has run for its bound gets TERM a grace before, KILL then and again, and its lock is
// not lost by that. When the lock is lost meanwhile, that is why.
func TestWatchMaxRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		l := &lease{done: make(chan struct{}), deadline: began.Add(time.Hour), ttl: time.Hour}
		w := newWatch(l, Limits{Grace: 2 * time.Second, MaxRun: 10 * time.Second})
		defer w.stop()
		var got []time.Duration
		for len(got) < 3 {
			<-w.timer.C
			if due := w.look(); due != nothing {
				got = append(got, time.Since(began))
			}
		}
		if want := []time.Duration{8 * time.Second, 10 * time.Second, 11 * time.Second}; !slices.Equal(got, want) || w.told != MaxRun {
			t.Errorf("told at %v because of %v, want %v", got, w.told, want)
		}
		l.lose()
		if w.lose(); w.told != Lost {
			t.Errorf("told because of %v after the lock was lost", w.told)
		}
	})
}
