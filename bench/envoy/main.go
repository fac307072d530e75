// Command envoy measures coord as Envoy's rate-limit service beside envoyproxy/ratelimit and gubernator: each is a process of
// its own, in turn, in one run. With -docs it makes docs/generated/performance-envoy.md of what it found. It runs on Linux,
// which tells the processor time of a process.
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
	"syscall"
	"time"

	"github.com/coordgo/coord/bench/internal/tb"
)

// options are what the flags set.
type options struct {
	rounds  int
	forEach time.Duration
	run     *regexp.Regexp // of callers/keys/descriptors/subject, and of admitted/limit
	docs    string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := command(ctx, os.Args[1:])
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "envoy:", err)
		stop()
		os.Exit(1)
	}
}

func parse(args []string) (*options, error) {
	o := new(options)
	flags := flag.NewFlagSet("envoy", flag.ContinueOnError)
	flags.IntVar(&o.rounds, "rounds", 5, "how often each is measured, in turn with the others")
	flags.DurationVar(&o.forEach, "for", time.Second, "for how long each is measured in a round")
	run := flags.String("run", "", "only those whose callers/keys/descriptors/subject, or admitted/limit, matches this regular expression")
	flags.StringVar(&o.docs, "docs", "", "the directory whose "+pageName+" is written; by default it goes to standard output")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
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

// measure starts Redis and the services, and stops them before it returns.
func (o *options) measure(ctx context.Context) (r *results, err error) {
	t := tb.New(ctx)
	defer t.End()
	defer t.Catch(&err)
	l, err := newLab(ctx, t)
	if err != nil {
		return nil, err
	}
	return (&runner{options: o, log: os.Stderr, start: l.start, redis: l.redis.Pid()}).all(ctx, l.versions)
}
