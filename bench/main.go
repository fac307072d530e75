// Command bench measures coord against the libraries that do the same, and against the bare
// commands that all of them are made of: on the same servers, in turn, in one run. It
// writes its results as JSON, and docs/generated/performance-peers.md and its plots are made of them.
//
// With the word shared before the flags it measures read/write locks and semaphores in the same way.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"time"
)

// options are what the flags set.
type options struct {
	rounds  int
	forEach time.Duration
	run     *regexp.Regexp // of workload/store/subject
	stores  []string
	out     string
	page    string
	only    bool
	suite   *suite
}

func main() {
	if os.Getenv(workerEnv) != "" {
		os.Exit(workerMain())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := command(ctx, os.Args[1:])
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// command does what the arguments say: compare with others, or, with the word shared, what several
// hold at once.
func command(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "shared" {
		return shared.main(ctx, args[1:])
	}
	return peers.main(ctx, args)
}

func (s *suite) main(ctx context.Context, args []string) error {
	o, err := s.parse(args)
	if err != nil {
		return err
	}
	return o.main(ctx)
}

func (s *suite) parse(args []string) (*options, error) {
	o := &options{suite: s}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&o.rounds, "rounds", 5, "how often each is measured, in turn with the others")
	flags.DurationVar(&o.forEach, "for", time.Second, "for how long each is measured in a round")
	run := flags.String("run", "", "only those whose workload/store/subject matches this regular expression")
	stores := flags.String("stores", strings.Join(s.stores, ","), "the stores, by commas")
	flags.StringVar(&o.out, "out", s.out, "where the results are written, and read with -only-page")
	flags.StringVar(&o.page, "docs", "", "the directory whose "+s.page.name+" and plots are written; none by default")
	flags.BoolVar(&o.only, "only-page", false, "measure nothing: make the page of the results that are there")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	o.stores = strings.Split(*stores, ",")
	var err error
	if o.run, err = regexp.Compile(*run); err != nil {
		return nil, err
	}
	if o.rounds < 1 || o.forEach < time.Millisecond || flags.NArg() > 0 {
		return nil, errors.New("want at least one round, a millisecond and no arguments")
	}
	return o, nil
}

func (o *options) main(ctx context.Context) error {
	if !o.only {
		results, err := o.measure(ctx)
		if err != nil {
			return err
		}
		if err := errors.Join(results.write(o.out), results.breached()); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if o.page == "" {
		return nil
	}
	results, err := resultsOrNone(o.out)
	if err != nil {
		return err
	}
	return o.suite.writePage(results, o.page)
}

// measure starts the stores, and stops them before it returns.
func (o *options) measure(ctx context.Context) (results *Results, err error) {
	tb := newTB(ctx)
	defer tb.end()
	defer tb.catch(&err)
	b := &runner{options: o, log: os.Stderr, stores: map[string]*store{}}
	for _, name := range o.stores {
		if b.stores[name], err = openStore(tb, name); err != nil {
			return nil, err
		}
	}
	return b.all(ctx), nil
}
