// Command bench measures coord against the libraries that do the same, and against the bare
// commands that all of them are made of: on the same servers, in turn, in one run. With -docs it
// makes docs/generated/performance-peers.md of what it found.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/coordgo/coord/bench/internal/tb"
)

// options are what the flags set.
type options struct {
	rounds  int
	forEach time.Duration
	run     *regexp.Regexp // of workload/store/subject
	stores  []string
	docs    string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := command(ctx, os.Args[1:])
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (*options, error) {
	o := new(options)
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&o.rounds, "rounds", 5, "how often each is measured, in turn with the others")
	flags.DurationVar(&o.forEach, "for", time.Second, "for how long each is measured in a round")
	run := flags.String("run", "", "only those whose workload/store/subject matches this regular expression")
	stores := flags.String("stores", strings.Join(storeNames, ","), "the stores, by commas")
	flags.StringVar(&o.docs, "docs", "", "the directory whose "+pageName+" is written; by default it goes to standard output")
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

// command measures, and writes the page.
func command(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	r, err := o.measure(ctx)
	if err != nil {
		return err
	}
	if o.docs == "" {
		_, err = os.Stdout.Write(r.page())
	} else {
		err = os.WriteFile(filepath.Join(o.docs, pageName), r.page(), 0o644)
	}
	return errors.Join(err, r.breached())
}

// measure starts the stores, and stops them before it returns.
func (o *options) measure(ctx context.Context) (r *results, err error) {
	t := tb.New(ctx)
	defer t.End()
	defer t.Catch(&err)
	b := &runner{options: o, log: os.Stderr, stores: map[string]*store{}}
	for _, name := range o.stores {
		if b.stores[name], err = openStore(t, name); err != nil {
			return nil, err
		}
	}
	r = b.all(ctx)
	return r, context.Cause(ctx)
}
