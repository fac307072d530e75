// Command longjob does work that takes longer than the lease of its lock, work that hangs, and work whose lock an operator
// takes away:
//
//	go run ./longjob
//	go run ./longjob --url redis://localhost:6379
//	go run ./longjob --without-renewal
//
// All the while a rival waits for the same lock. The job needs to do no more than to end when its context does.
package main

import (
	"context"
	"errors"
	"flag"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/examples/internal/program"
)

var (
	ttl            = flag.Duration("ttl", 2*time.Second, "the lease of the lock")
	withoutRenewal = flag.Bool("without-renewal", false, "let the lease lapse under a job that does not look, to see what renewal is for")
)

func main() { program.Main(show, nil) }

// scene has the clients of two processes, as it were.
type scene struct {
	*program.Program
	worker, rival *coord.Client
}

func show(ctx context.Context, p *program.Program) (err error) {
	s := scene{Program: p}
	for _, c := range []**coord.Client{&s.worker, &s.rival} {
		if *c, err = p.Open(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, (*c).Close()) }()
	}
	acts := []func(context.Context) error{s.renewal, s.maxHold, s.loss}
	if *withoutRenewal {
		acts = acts[:1]
	}
	for _, act := range acts {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}

// job works for a while, and stops at once when ctx ends.
func job(ctx context.Context, work time.Duration) error {
	select {
	case <-time.After(work):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// renewal: the lease is renewed for as long as the job works, and the rival waits.
func (s *scene) renewal(ctx context.Context) error {
	var working atomic.Bool
	rival := make(chan bool, 1)
	err := coord.Do(ctx, s.worker, "report", func(ctx context.Context) error {
		lock, _ := coord.Held(ctx, "report")
		work := lock.TTL() * 3 / 2
		s.Say("A job of %v under a lease of %v", work, lock.TTL())
		working.Store(true)
		defer working.Store(false)
		go func() { rival <- s.granted(ctx, "report", working.Load) }()
		if *withoutRenewal {
			return job(context.WithoutCancel(ctx), work) // it does not look, either
		}
		return job(ctx, work)
	}, s.options()...)
	if *withoutRenewal && errors.Is(err, coord.ErrLost) {
		err = nil
	}
	if err != nil {
		s.Say("  %v", err)
	}
	s.Check(err == nil, "  it is done")
	s.Check(!<-rival, "  nobody else had the lock before")
	return nil
}

func (s *scene) options() []coord.LockOption {
	if *withoutRenewal {
		return []coord.LockOption{coord.TTL(*ttl), coord.NoRenew()}
	}
	return []coord.LockOption{coord.TTL(*ttl)}
}

// granted waits for the lock, and tells what is true when the rival has it. It does not end with the worker's ctx.
func (s *scene) granted(ctx context.Context, key string, then func() bool) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Patience)
	defer cancel()
	seen := true
	if err := coord.Do(ctx, s.rival, key, func(context.Context) error {
		seen = then()
		return nil
	}); err != nil {
		s.Say("  the rival: %v", err)
		return true
	}
	return seen
}

// maxHold: a job that hangs does not keep the lock for ever.
func (s *scene) maxHold(ctx context.Context) error {
	s.Say("A job that hangs, with MaxHold(%v)", *ttl)
	err := coord.Do(ctx, s.worker, "report", func(ctx context.Context) error {
		return job(ctx, s.Patience)
	}, coord.TTL(*ttl), coord.MaxHold(*ttl))
	s.Check(errors.Is(err, coord.ErrMaxHold), "  its context ended, and Do gives ErrMaxHold")
	s.Check(!s.granted(ctx, "report", func() bool { return false }), "  the rival has the lock")
	return nil
}

// loss: an operator takes the lock away. The job stops, and only then the rival has the lock.
func (s *scene) loss(ctx context.Context) error {
	s.Say("A job whose lock an operator takes away")
	rival := make(chan bool, 1)
	err := coord.Do(ctx, s.worker, "report", func(ctx context.Context) error {
		go func() { rival <- s.granted(ctx, "report", func() bool { return ctx.Err() == nil }) }()
		if err := s.operator(ctx); err != nil {
			return err
		}
		return job(ctx, s.Patience)
	}, coord.TTL(*ttl))
	s.Check(errors.Is(err, coord.ErrLost), "  its context ended, and Do gives ErrLost: the job rolls back")
	s.Check(!<-rival, "  the rival had the lock not before that")
	return nil
}

// operator does what "coord break" does.
func (s *scene) operator(ctx context.Context) error {
	holder, err := s.rival.Inspect(ctx, "report")
	if err != nil {
		return err
	}
	return s.rival.Break(ctx, "report", holder.ID)
}
