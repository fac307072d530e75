// Command bench measures coord against the libraries that do the same, and against the bare
// commands that all of them are made of: on the same servers, in turn, in one run. With -docs it
// makes docs/generated/performance-peers.md of what it found.
package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"strings"

	"github.com/coordgo/coord/bench/internal/command"
	"github.com/coordgo/coord/bench/internal/tb"
)

func main() { command.Main("bench", measureAll) }

// options are what the flags set.
type options struct {
	command.Options
	stores []string
}

func parse(args []string) (*options, error) {
	o := new(options)
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	stores := flags.String("stores", strings.Join(storeNames, ","), "the stores, by commas")
	if err := o.Parse(flags, args, "workload/store/subject", pageName); err != nil {
		return nil, err
	}
	o.stores = strings.Split(*stores, ",")
	return o, nil
}

// measureAll measures, and writes the page.
func measureAll(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	r, err := o.measure(ctx)
	if err != nil {
		return err
	}
	return errors.Join(o.Publish(pageName, r.page()), r.breached())
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
