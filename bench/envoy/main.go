// Command envoy measures coord as Envoy's rate-limit service beside envoyproxy/ratelimit and gubernator: each is a process of
// its own, in turn, in one run. With -docs it makes docs/generated/performance-envoy.md of what it found. It runs on Linux,
// which tells the processor time of a process.
package main

import (
	"context"
	"errors"
	"flag"
	"os"

	"github.com/coordgo/coord/bench/internal/command"
	"github.com/coordgo/coord/bench/internal/tb"
)

func main() { command.Main("envoy", measureAll) }

func parse(args []string) (*command.Options, error) {
	o := new(command.Options)
	return o, o.Parse(flag.NewFlagSet("envoy", flag.ContinueOnError), args, "callers/keys/descriptors/subject, or admitted/limit,", pageName)
}

// measureAll measures, and writes the page.
func measureAll(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	r, err := measure(ctx, o)
	if err != nil {
		return err
	}
	return errors.Join(o.Publish(pageName, r.page()), r.breached())
}

// measure starts Redis and the services, and stops them before it returns.
func measure(ctx context.Context, o *command.Options) (r *results, err error) {
	t := tb.New(ctx)
	defer t.End()
	defer t.Catch(&err)
	l, err := newLab(ctx, t)
	if err != nil {
		return nil, err
	}
	return (&runner{Options: o, log: os.Stderr, start: l.start, redis: l.redis.Pid()}).all(ctx, l.versions)
}
