// Command leaderish keeps one of three workers, each a process, at work: the one that has the lock. It is killed, another
// takes over, and never are there two:
//
//	go run ./leaderish
//	go run ./leaderish --url redis://localhost:6379
//	go run ./leaderish --without-lock
//
// A lock is a lease: a killed leader's ends with its TTL, and that is how long the work rests. A leader that is cut off from
// the store stops by itself before that, because its context ends. What must not suffer from one that was frozen in between is
// fenced: see fencedwrites.
package main

import (
	"context"
	"errors"
	"flag"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/examples/internal/program"
)

const (
	beat    = 20 * time.Millisecond
	settled = 10 // signs after which a leader is killed
)

var (
	ttl         = flag.Duration("ttl", 2*time.Second, "the lease of the leader")
	withoutLock = flag.Bool("without-lock", false, "let every worker lead, to see what the lock is for")
)

func main() { program.Main(watch, worker) }

// sign is what a leader tells: at that moment it led.
type sign struct {
	At    int64 // Unix time in nanoseconds
	Token coord.Token
}

// worker leads whenever it can.
func worker(ctx context.Context, p *program.Program) error {
	client, err := p.Open(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := p.Ready(ctx); err != nil {
		return err
	}
	if *withoutLock {
		return lead(ctx, p, 0)
	}
	for ctx.Err() == nil {
		err := coord.Do(ctx, client, "leader", func(ctx context.Context) error {
			lock, _ := coord.Held(ctx, "leader")
			return lead(ctx, p, lock.Token())
		}, coord.TTL(*ttl))
		switch {
		case err == nil, errors.Is(err, coord.ErrLost): // it runs again
		case errors.Is(err, coord.ErrUnavailable):
			pause(ctx, time.Second) // the store will come back
		default:
			return err
		}
	}
	return nil
}

// lead does the leader's work until ctx ends: because the lock is lost, or the program ends.
func lead(ctx context.Context, p *program.Program, token coord.Token) error {
	for {
		at := time.Now()
		if ctx.Err() != nil { // it looks at the clocks itself
			return nil
		}
		if err := p.Tell(sign{at.UnixNano(), token}); err != nil {
			return err
		}
		pause(ctx, beat)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// watch kills two leaders, one after the other, and looks at the signs of all.
func watch(ctx context.Context, p *program.Program) (err error) {
	crew, err := program.Start[sign](ctx, p, "A", "B", "C")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, crew.End()) }()
	if err := crew.Go(); err != nil {
		return err
	}
	p.Say("three workers, one lock with a lease of %v", *ttl)
	var leaders []tenure
	for kills := 0; ; {
		e, err := crew.Next()
		if err != nil {
			return err
		}
		var signs int
		if leaders, signs = record(leaders, e.By.Name, e.What); signs != settled {
			continue
		}
		if kills++; kills == 3 {
			p.Say("%s leads", e.By.Name)
			break
		}
		p.Say("%s leads, and is killed with kill -9", e.By.Name)
		if err := e.By.Kill(); err != nil {
			return err
		}
	}
	for i, t := range leaders[1:] {
		rest := time.Duration(t.first - leaders[i].last)
		p.Say("%s took over %.2fs after the last sign of %s", t.leader, rest.Seconds(), leaders[i].leader)
	}
	overlaps, rising := audit(leaders)
	p.Check(overlaps == 0, "never two at once")
	p.Check(rising, "the fencing token rises from leader to leader")
	return nil
}
