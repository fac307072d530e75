// Command supplier lets twelve processes call a supplier that allows 2000 calls in any minute, and plots what came of it:
//
//	go run ./supplier
//	go run ./supplier --url redis://localhost:6379 --rate 200 --per 1s --for 10s
//	go run ./supplier --for 2m --svg supplier.svg --json supplier.json
//	go run ./supplier --rate 200 --per 1s --for 5s --alone
//
// Together they would like to make twice as many calls as they may (--load). Each asks before it calls; never are there more
// than 2000 calls in a minute, wherever it begins. With --alone every process limits itself, as a limiter in memory does.
//
// A store in memory belongs to one process: with --url memory:// the callers are twelve clients of it in this one.
package main

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/examples/internal/program"
)

var (
	rate      = flag.Int("rate", 2000, "how many calls the supplier allows")
	per       = flag.Duration("per", time.Minute, "in any time of this length")
	during    = flag.Duration("for", time.Minute, "how long to call")
	processes = flag.Int("processes", 12, "how many processes call")
	load      = flag.Float64("load", 2, "calls that are wanted, as a multiple of those that are allowed")
	svgFile   = flag.String("svg", "", "write the plot to this file")
	jsonFile  = flag.String("json", "", "write the figures to this file")
	alone     = flag.Bool("alone", false, "let every process limit itself, to see what the store is for")
)

func main() { program.Main(plot, caller) }

// calls are what a process tells in the end.
type calls struct {
	Made   []call
	Denied int
}

// call is a call of the supplier. The limit admitted it between Sent and Admitted, both Unix time in nanoseconds.
type call struct{ Sent, Admitted int64 }

// caller is one of the processes.
func caller(ctx context.Context, p *program.Program) error {
	if *alone {
		p.URL = "memory://"
	}
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
	end, err := time.Parse(time.RFC3339Nano, word)
	if err != nil {
		return err
	}
	all, err := callUntil(ctx, client, end)
	if err != nil {
		return err
	}
	return p.Tell(all)
}

// callUntil calls the supplier as often as it wants to, and may.
func callUntil(ctx context.Context, client *coord.Client, end time.Time) (all calls, err error) {
	limit := coord.Per(*rate, *per)
	between := time.Duration(float64(*per) * float64(*processes) / (float64(*rate) * *load)) // on average
	for {
		wish := time.Duration(rand.ExpFloat64() * float64(between)) // calls come by chance, not in step
		select {
		case <-time.After(wish):
		case <-ctx.Done():
			return all, ctx.Err()
		}
		sent := time.Now()
		if sent.After(end) {
			return all, nil
		}
		r, err := client.Allow(ctx, "supplier", limit)
		admitted := time.Now()
		switch {
		case err != nil:
			return all, err
		case r.Allowed:
			all.Made = append(all.Made, call{sent.UnixNano(), admitted.UnixNano()}) // the supplier is called here
		default:
			all.Denied++
		}
	}
}

// plot has the callers call, and shows and judges what they did.
func plot(ctx context.Context, p *program.Program) error {
	inMemory := strings.HasPrefix(p.URL, "memory:") && !*alone
	if inMemory && p.URL == "memory://" {
		p.URL += "supplier" // one store of that name for all clients
	}
	client, err := p.Open(ctx)
	if err != nil {
		return err
	}
	info := client.Info()
	if err := client.Close(); err != nil {
		return err
	}
	run, callers := processesCall, "processes"
	if inMemory {
		run, callers = clientsCall, "clients in one process"
	}
	if *alone {
		p.Say("%d %s, each with a limit of %v of its own, for %v", *processes, callers, coord.Per(*rate, *per), *during)
	} else {
		p.Say("%d %s share a limit of %v on %s, for %v", *processes, callers, coord.Per(*rate, *per), info.Name, *during)
	}
	began, all, err := run(ctx, p)
	if err != nil {
		return err
	}
	r := newReport(began.UnixNano(), all.Made)
	r.Store, r.Server, r.Denied, r.InOne = info.Name, info.Server, all.Denied, inMemory
	p.Say("%s", r.terminal())
	if err := r.write(*svgFile, *jsonFile); err != nil {
		return err
	}
	p.Check(0 < r.Most && r.Most <= *rate, "%d calls, %d denied; in any %v at most %d, where %d are allowed", r.Calls, r.Denied, *per, r.Most, *rate)
	return nil
}

// processesCall has as many processes call.
func processesCall(ctx context.Context, p *program.Program) (began time.Time, all calls, err error) {
	names := make([]string, *processes)
	for i := range names {
		names[i] = "caller-" + strconv.Itoa(i+1)
	}
	p.Patience += *during
	crew, err := program.Start[calls](ctx, p, names...)
	if err != nil {
		return began, all, err
	}
	defer func() { err = errors.Join(err, crew.End()) }()
	if err := crew.Go(); err != nil {
		return began, all, err
	}
	began = time.Now()
	if err := crew.Say(began.Add(*during).Format(time.RFC3339Nano)); err != nil {
		return began, all, err
	}
	for e, err := range crew.Events(*processes) {
		if err != nil {
			return began, all, err
		}
		all.add(e.What)
	}
	return began, all, nil
}

// clientsCall has as many clients of this process call.
func clientsCall(ctx context.Context, p *program.Program) (began time.Time, all calls, err error) {
	var mu sync.Mutex
	var callers sync.WaitGroup
	began = time.Now()
	for range *processes {
		callers.Go(func() {
			made, failed := callAlone(ctx, p, began.Add(*during))
			mu.Lock()
			defer mu.Unlock()
			all.add(made)
			err = errors.Join(err, failed)
		})
	}
	callers.Wait()
	return began, all, err
}

// callAlone calls through a client of its own.
func callAlone(ctx context.Context, p *program.Program, end time.Time) (all calls, err error) {
	client, err := p.Open(ctx)
	if err != nil {
		return all, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	return callUntil(ctx, client, end)
}

func (c *calls) add(more calls) {
	c.Made = append(c.Made, more.Made...)
	c.Denied += more.Denied
}
