package hold

import (
	"context"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/errs"
)

// Place is the place of one who waits for a signal: a hold of a shared key, which a signal ends at the store. It is not
// renewed: a wait ends before its lease, so that a signal that was taken by a waiter who died delays the others no longer
// than that.
type Place struct {
	m *Manager
	t *Tenure
}

// Take takes a place of m for s, which has PassOn, in one request. p is zero before. If there is no error, Leave or Withdraw
// follows; else the janitor removes what may come yet.
func (p *Place) Take(ctx context.Context, m *Manager, s Spec) error {
	if !m.beginPlace() {
		return driver.ErrClosed
	}
	s.NoRenew = true
	defer func() {
		if p.t == nil { // also if an observer has ended the goroutine
			m.endPlace()
		}
	}()
	t, err := new(Attempt).Run(ctx, m, s, true, nil)
	if err != nil {
		return err
	}
	p.m, p.t = m, t
	return nil
}

// beginPlace and endPlace count places among the attempts, and among the goroutines, for Withdraw may start one when a
// Manager that was stopped has waited long enough for attempts.
func (m *Manager) beginPlace() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return false
	}
	m.attempts++
	m.bg.Add(1)
	return true
}

func (m *Manager) endPlace() {
	defer m.bg.Done()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.attempts--
	m.noteIdle()
}

// maxPlacePause is the longest time between two questions of a waiter, where changes are pushed.
const maxPlacePause = time.Second

// Await returns when the place has ended: by a signal, or when three quarters of its lease are over. there asks the store whether it still has the
// place. It is called after pauses, and at once when the store pushes a change. An error of it is no answer.
// The error of Await is that of ctx, or ErrClosed: then the place may be there.
func (p *Place) Await(ctx context.Context, there func(context.Context) (bool, error)) error {
	asking, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(p.m.life, stop)()
	c := p.m.follow(asking, p.t.h.by.spec.Key)
	now := p.m.clock.Now()
	end := now.Add(p.t.h.deadline.Load().Until(now) * 3 / 4)
	for pause := minPause; ; pause = min(pause*3/2, maxPause) {
		wait := p.m.untilFree(p.t.h.by.spec.Key, nil, pause)
		if c.pushed() {
			wait = maxPlacePause
		}
		left := end.Until(p.m.clock.Now())
		switch ended := p.m.awaitChange(ctx, p.t.Done(), c, min(wait, left)); {
		case ended && ctx.Err() != nil:
			return errs.ContextError(ctx)
		case ended:
			return driver.ErrClosed
		case p.t.Check() != nil:
			return nil
		case end.Reached(p.m.clock.Now()):
			_ = p.t.Release(ctx) // before the next Wait: a signal must not find this place
			return nil
		}
		bound, cancel := context.WithTimeout(asking, end.Until(p.m.clock.Now()))
		is, err := there(bound)
		cancel()
		if err == nil && !is {
			p.m.gone(p.t.h, errs.ErrLost)
			return nil
		}
	}
}

// ID is the id under which the store has the place.
func (p *Place) ID() string { return p.t.ID() }

// Leave is for who goes on after Await.
func (p *Place) Leave() { p.m.endPlace() }

// Withdraw gives the place back in the background, for who does not go on. If it may have been ended before, PassOn gives the
// signal to another waiter.
func (p *Place) Withdraw() {
	p.m.bg.Go(func() {
		defer p.m.endPlace()
		if p.t.Release(context.Background()) != nil {
			p.m.janitor.put(p.passingOn())
		}
	})
}

// passingOn has the janitor pass the signal on that may have ended the place.
func (p *Place) passingOn() *task {
	now, by := p.m.clock.Mono(), p.t.h.by
	return &task{key: by.spec.Key, id: by.id, until: now, alarm: alarm{next: now}, passOn: by.spec.PassOn}
}
