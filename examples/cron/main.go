// Command cron runs a job once at every tick, although four machines, here processes, all have it in their schedule:
//
//	go run ./cron
//	go run ./cron --url redis://localhost:6379
//	go run ./cron --without-lock
//	go run ./cron --without-min-hold
//
// A machine that finds the tick taken leaves it. The machines' clocks differ, and the job is shorter than that: MinHold keeps
// the tick taken after the job, so that a machine whose clock is late does not run it again.
package main

import (
	"context"
	"errors"
	"flag"
	"strings"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/examples/internal/program"
)

var (
	every          = flag.Duration("every", 250*time.Millisecond, "time from tick to tick")
	ticks          = flag.Int("ticks", 8, "how many ticks")
	withoutLock    = flag.Bool("without-lock", false, "run the job on every machine, to see what the lock is for")
	withoutMinHold = flag.Bool("without-min-hold", false, "free the tick when the job is done, to see what MinHold is for")
)

// late is how far each machine's clock is behind.
var late = map[string]time.Duration{"A": 0, "B": 30 * time.Millisecond, "C": 60 * time.Millisecond, "D": 90 * time.Millisecond}

func main() { program.Main(watch, machine) }

// turn is what a machine tells of a tick.
type turn struct {
	Tick int
	Ran  bool
}

// machine has the job in its schedule.
func machine(ctx context.Context, p *program.Program) error {
	client, err := p.Open(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := p.Ready(ctx); err != nil {
		return err
	}
	word, err := p.Word(ctx)
	if err != nil {
		return err
	}
	first, err := time.Parse(time.RFC3339Nano, word)
	if err != nil {
		return err
	}
	for i := range *ticks {
		tick := first.Add(time.Duration(i) * *every)
		if err := sleepUntil(ctx, tick.Add(late[p.Name])); err != nil {
			return err
		}
		ran, err := once(ctx, client, tick, job)
		if err != nil {
			return err
		}
		if err := p.Tell(turn{i, ran}); err != nil {
			return err
		}
	}
	// On ZooKeeper the holds of a client end with it: stay until the others have had their ticks.
	<-ctx.Done()
	return nil
}

// once runs a job for a tick, unless another machine does or did.
func once(ctx context.Context, client *coord.Client, tick time.Time, job func(context.Context) error) (ran bool, err error) {
	if *withoutLock {
		return true, job(ctx)
	}
	key := coord.Key("report", tick.UTC().Format(time.RFC3339Nano))
	opts := []coord.LockOption{coord.TTL(10 * time.Second)}
	if !*withoutMinHold {
		// Longer than any two clocks, or machines, are apart; and the next tick has a key of its own.
		opts = append(opts, coord.MinHold(time.Minute))
	}
	return coord.TryDo(ctx, client, key, job, opts...)
}

// job writes the report of the day, in no time.
func job(context.Context) error { return nil }

func sleepUntil(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// watch starts the machines and counts the runs of each tick.
func watch(ctx context.Context, p *program.Program) (err error) {
	crew, err := program.Start[turn](ctx, p, "A", "B", "C", "D")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, crew.End()) }()
	if err := crew.Go(); err != nil {
		return err
	}
	p.Say("%d machines, a job every %v, %d ticks; their clocks are up to %v late", len(late), *every, *ticks, late["D"])
	if err := crew.Say(time.Now().Add(*every).Format(time.RFC3339Nano)); err != nil {
		return err
	}
	ran := make([]string, *ticks) // who ran the job at each tick
	for e, err := range crew.Events(len(late) * *ticks) {
		if err != nil {
			return err
		}
		if e.What.Ran {
			ran[e.What.Tick] += e.By.Name
		}
	}
	once, more := count(ran)
	p.Say("machines that ran it, tick by tick: %s", strings.Join(ran, " "))
	p.Check(once == *ticks, "%d ticks with one run, %d with more, %d with none", once, more, *ticks-once-more)
	return nil
}

// count counts the ticks that ran on one machine, and on more.
func count(ran []string) (once, more int) {
	for _, machines := range ran {
		switch len(machines) {
		case 0:
		case 1:
			once++
		default:
			more++
		}
	}
	return once, more
}
