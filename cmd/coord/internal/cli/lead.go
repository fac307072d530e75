package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/cmd/coord/internal/child"
	"github.com/coordgo/coord/config"
)

const leadLong = `Runs CMD while leading NAME, on one machine of all that run this. The others wait, and one
of them goes on when the leader ends, within --ttl if its machine dies.

CMD has COORD_LOCK, the name, and COORD_TOKEN, the term, in its environment: a number that
is greater in each later term. Let what CMD writes to refuse one that is older than one it
has seen.

If the term is lost, CMD gets TERM and then KILL, as with coord lock, and is started
again in the next term of this machine. An outage of the store does not end coord.
When CMD ends by itself, coord gives NAME back, and exits with CMD's status. Signals
are passed on to CMD; while coord waits, they end the wait.

` + exitHelp

const leadExample = `  # one active scheduler, and another one within 10 seconds
  coord lead scheduler --ttl 10s -- ./scheduler

  # coord status shows where it runs
  coord lead ingest --as "$(hostname):8080" -- ./ingest --listen :8080`

// leadFlags are the flags of coord lead: those of coord lock that a leader has, and its name.
type leadFlags struct {
	lockFlags
	as string
}

func (a *app) lead(stop func()) *cobra.Command {
	var f leadFlags
	cmd := &cobra.Command{
		Use:               "lead NAME [flags] -- CMD [ARG]...",
		Short:             "Run a command on one machine of many, and on another if that fails",
		Long:              leadLong,
		Example:           leadExample,
		ValidArgsFunction: afterName(noNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, command, err := nameAndCommand(cmd, args)
			if err == nil && command == nil {
				err = usage("no command: want coord lead %s -- CMD", name)
			}
			if err != nil {
				return err
			}
			cfg, err := a.store.loadShared(cmd.Context())
			if err != nil {
				return err
			}
			if err := f.check(cmd, cfg); err != nil {
				return err
			}
			f.maxHold = 0 // a bound for locks is none for terms
			return a.runLead(cmd.Context(), stop, cfg, name, command, f)
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&f.ttl, "ttl", 0, "lease: how soon another machine leads if this one dies (default 30s)")
	flags.BoolVar(&f.fair, "fair", false, "lead in the order of those who wait so, over all machines")
	flags.DurationVar(&f.grace, "grace", defaultGrace, "time between TERM and KILL on loss; at most a third of the TTL")
	flags.StringVar(&f.as, "as", "", "what coord status shows as the holder, such as host:port (default: the host's name)")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "tell on standard error when a term begins")
	for _, name := range []string{"ttl", "grace", "as"} {
		noFiles(cmd, name)
	}
	return cmd
}

// runLead leads, and leads again after each loss, until the command ends by itself, or a signal ends the wait.
func (a *app) runLead(ctx context.Context, stop func(), cfg *config.Config, name string, command []string, f leadFlags) (err error) {
	cmd, err := child.Find(command) // before the wait, not after it
	if err != nil {
		return err
	}
	client, err := openConfig(ctx, cfg)
	if err != nil {
		return cause(ctx, err)
	}
	defer func() {
		if closed := client.Close(); closed != nil { // what the command said is what counts
			fmt.Fprintf(a.stderr, "coord: %s\n", oneLine(closed))
		}
	}()
	opts := f.options(false)
	if f.as != "" {
		opts = append(opts, coord.HolderName(f.as))
	}
	for {
		lost, err := a.leadOnce(ctx, stop, client, name, cmd, f, opts)
		if !lost {
			return err
		}
		fmt.Fprintf(a.stderr, "coord: this machine does not lead %q any more: the command has ended, and is started again when it does\n", name)
		ctx, stop = a.signals.Context(context.Background()) // the command had the signals
	}
}

// leadOnce leads until the command has ended. lost is that its term was.
func (a *app) leadOnce(ctx context.Context, stop func(), client *config.Client, name string, cmd child.Command, f leadFlags, opts []coord.LockOption) (lost bool, err error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	err = coord.Lead(ctx, client, name, func(work context.Context) error {
		defer end() // Lead does not campaign again by itself: first, signals have to end its wait again
		lock, _ := coord.Held(work, name)
		stop()
		if ctx.Err() != nil { // a signal came with the grant
			return ctx.Err()
		}
		if f.verbose {
			fmt.Fprintf(a.stderr, "coord: leading %q, term %d\n", name, lock.Token())
		}
		code, told, err := a.runUnder(lock, cmd, f.lockFlags)
		switch {
		case err != nil:
			return err
		case told == child.Lost:
			lost = true
		case code != 0:
			return exit(code, "")
		}
		return nil
	}, opts...)
	if lost || errors.Is(err, coord.ErrLost) {
		return true, nil
	}
	return false, cause(ctx, err)
}
