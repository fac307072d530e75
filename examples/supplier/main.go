// Command supplier lets twelve processes call a supplier that allows 200 calls in any second:
//
//	go run ./supplier
//	go run ./supplier --url redis://localhost:6379 --rate 2000 --per 1m --for 2m
//	go run ./supplier --alone
//
// Together they want to make twice as many calls as they may (--load). Each asks before it calls; never are there more
// than 200 calls in a second, wherever it begins. With --alone every process limits itself, as a limiter in memory does.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/examples/internal/program"
)

var (
	rate      = flag.Int("rate", 200, "how many calls the supplier allows")
	per       = flag.Duration("per", time.Second, "in any time of this length")
	during    = flag.Duration("for", 5*time.Second, "how long to call")
	processes = flag.Int("processes", 12, "how many processes call")
	load      = flag.Float64("load", 2, "calls that are wanted, as a multiple of those that are allowed")
	alone     = flag.Bool("alone", false, "let every process limit itself, to see what the store is for")
)

func main() { program.Main(count, caller) }

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
	all, err := callUntil(ctx, client, time.Now().Add(*during))
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
		switch {
		case err != nil:
			return all, err
		case r.Allowed:
			all.Made = append(all.Made, call{sent.UnixNano(), time.Now().UnixNano()}) // the supplier is called here
		default:
			all.Denied++
		}
	}
}

// count has the processes call, and judges what they did.
func count(ctx context.Context, p *program.Program) (err error) {
	names := make([]string, *processes)
	for i := range names {
		names[i] = "caller-" + strconv.Itoa(i+1)
	}
	p.Patience += *during
	crew, err := program.Start[calls](ctx, p, names...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, crew.End()) }()
	p.Say("%d processes share %v, and call for %v", *processes, coord.Per(*rate, *per), *during)
	if err := crew.Go(); err != nil {
		return err
	}
	var all calls
	for e, err := range crew.Events(*processes) {
		if err != nil {
			return err
		}
		all.Made = append(all.Made, e.What.Made...)
		all.Denied += e.What.Denied
	}
	most := mostWithin(all.Made, *per)
	p.Check(0 < most && most <= *rate, "%d calls, %d denied; in any %v at most %d, where %d are allowed",
		len(all.Made), all.Denied, *per, most, *rate)
	return nil
}

// mostWithin is the most calls in any period. One whose admission may lie outside is left out: no count is above what the
// limit admitted in that time.
func mostWithin(made []call, per time.Duration) (most int) {
	slices.SortFunc(made, func(a, b call) int { return cmp.Compare(a.Sent, b.Sent) })
	for i, first := range made {
		n, end := 0, first.Sent+int64(per)
		for _, c := range made[i:] {
			if c.Sent >= end {
				break
			}
			if c.Admitted < end {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}
