package demo

import (
	"errors"
	"time"

	"github.com/coordgo/coord"
)

// lease is what the acts about loss ask for. Stores may grant more.
const lease = 1500 * time.Millisecond

// pair starts a holder and a waiter of one lock, and returns when the one holds and
// the other waits.
func (s *stage) pair() (a, b *process, first event, err error) {
	all, err := s.startAll([]job{{Role: holder, Name: "A", TTL: lease}, {Role: holder, Name: "B", TTL: lease}})
	if err != nil {
		return nil, nil, event{}, err
	}
	a, b = all[0], all[1]
	if err = a.tell(wordGo); err == nil {
		first, err = s.hear(a, held)
	}
	if err == nil {
		err = b.tell(wordGo)
	}
	if err == nil {
		_, err = s.hear(b, waiting)
	}
	if err == nil {
		// A renewal or two, so that the lease is not the one it began with.
		err = s.pause(first.TTL / 2)
	}
	if err != nil {
		return nil, nil, event{}, errors.Join(err, end(all...))
	}
	return a, b, first, nil
}

// pause lets time go by.
func (s *stage) pause(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// crash: a holder is killed, and the next in the queue gets the lock when the lease ends.
func (s *stage) crash() (err error) {
	s.act("A holds a lock with a lease of %v, B waits. A is killed with kill -9", lease)
	a, b, first, err := s.pair()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end(a, b)) }()
	killed := time.Now()
	if err := a.cmd.Process.Kill(); err != nil {
		return err
	}
	second, err := s.hear(b, held)
	if err != nil {
		return err
	}
	took := second.At.Sub(killed)
	s.note("B had the lock %.2fs later", took.Seconds())
	s.check(second.Token > first.Token, "its token is greater: %d, after %d", second.Token, first.Token)
	return nil
}

// freeze: a holder is stopped beyond its lease. It wakes up, knows that it has lost, and what
// it writes all the same is refused by its token.
func (s *stage) freeze() (err error) {
	if !canPause {
		s.act("skipped: this system cannot pause a process")
		return nil
	}
	s.act("A holds the lock, B waits. A is paused with kill -STOP, beyond its lease")
	a, b, _, err := s.pair()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resume(a), end(a, b)) }()
	var resource coord.Guard // what A and B write to
	write := func(p *process) error {
		if err := p.tell(wordWrite); err != nil {
			return err
		}
		e, err := s.hear(p, wrote)
		if err != nil {
			return err
		}
		return resource.Check("resource", e.Token)
	}
	if err := write(a); err != nil {
		return err
	}
	stopped := time.Now()
	if err := pause(a); err != nil {
		return err
	}
	second, err := s.hear(b, held)
	if err != nil {
		return err
	}
	took := second.At.Sub(stopped)
	s.note("B had the lock %.2fs later, and writes with its token", took.Seconds())
	if err := write(b); err != nil {
		return err
	}
	if err := resume(a); err != nil {
		return err
	}
	if err := a.tell(wordCheck); err != nil {
		return err
	}
	e, err := s.hear(a, checked)
	if err != nil {
		return err
	}
	s.check(e.Lost, "A is resumed: asked at once, it knows that it has lost the lock")
	refused := write(a)
	s.check(errors.Is(refused, coord.ErrLost), "A writes all the same: its old token is refused")
	return nil
}
