// Package command is what the programs that measure have in common: how they run, their flags, and where their page goes.
package command

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
)

// Main runs a program until it is done, or interrupted.
func Main(name string, do func(ctx context.Context, args []string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := do(ctx, os.Args[1:])
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, name+":", err)
		stop()
		os.Exit(1)
	}
}

// Options are the flags of all programs.
type Options struct {
	Rounds  int
	ForEach time.Duration
	Run     *regexp.Regexp
	Docs    string
}

// Parse reads the flags, and those that are in flags already. matched is what -run is compared with.
func (o *Options) Parse(flags *flag.FlagSet, args []string, matched, page string) (err error) {
	flags.IntVar(&o.Rounds, "rounds", 5, "how often each is measured, in turn with the others")
	flags.DurationVar(&o.ForEach, "for", time.Second, "for how long each is measured in a round")
	run := flags.String("run", "", "only those whose "+matched+" matches this regular expression")
	flags.StringVar(&o.Docs, "docs", "", "the directory whose "+page+" is written; by default it goes to standard output")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.Run, err = regexp.Compile(*run); err != nil {
		return err
	}
	if o.Rounds < 1 || o.ForEach < time.Millisecond || flags.NArg() > 0 {
		return errors.New("want at least one round, a millisecond and no arguments")
	}
	return nil
}

// Publish writes the page where the flags say.
func (o *Options) Publish(page string, text []byte) error {
	if o.Docs == "" {
		_, err := os.Stdout.Write(text)
		return err
	}
	return os.WriteFile(filepath.Join(o.Docs, page), text, 0o644)
}
