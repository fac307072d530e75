// Command httpload puts load on limits before HTTP handlers with hey and wrk, counts what was admitted, reads every answer, and
// measures what a request costs with limits and without:
//
//	go run ./httpload
//	go run ./httpload --url redis://localhost:6379 --json redis.json
//	go run ./httpload --rounds 0 --alone
//
// scripts/stores hey wrk installs the two. Two servers, each with a client of its own, share the store, as two machines
// would; with --alone each counts for itself, and twice as much is admitted.
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
	requests    = flag.Int("requests", 5000, "how many requests hey sends to each server, and in each round")
	connections = flag.Int("connections", 50, "on how many connections, to each server")
	bound       = flag.Int("bound", 1000, "how many of them are admitted, by both servers together")
	during      = flag.Duration("for", 5*time.Second, "how long wrk sends requests, under 200/1s")
	rounds      = flag.Int("rounds", 5, "how often the cost is measured, each way in turn")
	alone       = flag.Bool("alone", false, "let each server count for itself, to see what the store is for")
	jsonFile    = flag.String("json", "", "write the figures to this file")
)

func main() {
	program.Main(load, func(context.Context, *program.Program) error { return errors.New("this example is one process") })
}

// load does all that there is to do on one store.
func load(ctx context.Context, p *program.Program) (err error) {
	switch {
	case *alone:
		p.URL = "memory://" // each client has its own
	case p.URL == "memory://":
		p.URL += "httpload" // one store of that name for both servers
	}
	first, second, err := openTwo(ctx, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, first.Close(), second.Close()) }()
	r := newReport(first.Info())
	p.Say("two servers with limits on %s, behind hey and wrk", r.Store)
	if err := r.hold(ctx, p, first, second); err != nil {
		return err
	}
	if err := r.keepRate(ctx, p, first, second); err != nil {
		return err
	}
	if err := r.measure(ctx, first, *rounds); err != nil {
		return err
	}
	if *rounds > 0 {
		p.Say("%s", strings.TrimRight(r.costs(), "\n"))
	}
	return r.write(*jsonFile)
}

// openTwo opens the store twice.
func openTwo(ctx context.Context, p *program.Program) (first, second *coord.Client, err error) {
	if first, err = p.Open(ctx); err != nil {
		return nil, nil, err
	}
	if second, err = p.Open(ctx); err != nil {
		return nil, nil, errors.Join(err, first.Close())
	}
	return first, second, nil
}
