package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/cmd/internal/child"
	"github.com/coordgo/coord/config"
)

const leadLong = `Runs CMD while leading NAME, on one machine of all that run this. The others wait, and one
of them goes on when the leader ends, within --ttl if its machine dies.

CMD has COORD_LOCK, the name, and COORD_TOKEN, the term, in its environment: a number that
is greater in each later term. Let what CMD writes to refuse one that is older than one it
has seen.

If the term is lost, CMD gets TERM and then KILL, as with coord lock, and is started
again in the next term of this machine; another one that waits comes first. An outage
of the store does not end coord, except at the start: then it exits with 69. When CMD
ends by itself, coord gives NAME back, and exits with CMD's status. Signals are passed
on to CMD; while coord waits, they end the wait.`

const leadExample = `  # one active scheduler, and another one within 10 seconds
  coord lead scheduler --ttl 10s -- ./scheduler

  # coord status shows where it runs
  coord lead ingest --as "$(hostname):8080" -- ./ingest --listen :8080`

// leadFlags are the flags of coord lead: those of coord lock that a leader has, and its name.
type leadFlags struct {
	lockFlags
	as string
}

func (a *App) lead(stop func()) *cobra.Command {
	var f leadFlags
	cmd := &cobra.Command{
		Use:               "lead NAME [flags] -- CMD [ARG]...",
		Short:             "Run a command on one machine of many, and on another if that fails",
		Long:              leadLong,
		Example:           leadExample,
		ValidArgsFunction: a.afterName(a.heldNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, command, cfg, err := a.lockCommand(cmd, args, &f.lockFlags)
			if err != nil {
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
		NoFiles(cmd, name)
	}
	return cmd
}

// runLead leads, and leads again after each loss, until the command ends by itself, or a signal asks coord to end.
func (a *App) runLead(ctx context.Context, stop func(), cfg *config.Config, name string, command []string, f leadFlags) error {
	cmd, err := child.Find(command) // before the wait, not after it
	if err != nil {
		return err
	}
	client, err := OpenConfig(ctx, cfg)
	if err != nil {
		return Cause(ctx, err)
	}
	defer func() {
		if closed := client.Close(); closed != nil { // what the command said is what counts
			fmt.Fprintf(a.stderr, "coord: %s\n", OneLine(closed))
		}
	}()
	opts := f.options(false)
	if f.as != "" {
		opts = append(opts, coord.HolderName(f.as))
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	l := &leader{App: a, name: name, cmd: cmd, flags: f, end: end, stop: stop}
	err = l.lead(ctx, client, opts)
	l.stop()
	if l.own != nil && errors.Is(err, l.own) {
		return err
	}
	return Cause(ctx, err)
}

// lead campaigns until the command has ended by itself, or ctx ends.
func (l *leader) lead(ctx context.Context, client *config.Client, opts []coord.LockOption) error {
	// What refuses a question will refuse a campaign, and Lead would try again without end.
	_, err := client.Inspect(ctx, l.name)
	if err != nil && !errors.Is(err, coord.ErrNotHeld) && !errors.Is(err, coord.ErrUnsupported) {
		return err
	}
	for {
		err := coord.Lead(ctx, client, l.name, l.term, opts...)
		if !errors.Is(err, coord.ErrLost) || !pause(ctx) {
			return err
		}
	}
}

// pause lets another candidate come first, as coord.Lead does after a loss. It reports false if ctx ended.
func pause(ctx context.Context) bool {
	timer := time.NewTimer(100*time.Millisecond + rand.N(100*time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// leader is one coord lead.
type leader struct {
	*App
	name  string
	cmd   child.Command
	flags leadFlags
	end   context.CancelCauseFunc // ends the campaigns
	stop  func()                  // hands the signals over to the command: until then they call end
	own   error                   // how the command ended by itself, if not with 0
}

// term runs the command in a term. What it returns ends coord, if the term was not lost.
func (l *leader) term(ctx context.Context) error {
	l.stop()
	defer func() { l.stop = l.signals.Ending(l.end) }()
	if ctx.Err() != nil { // a signal came with the grant, or the term is over
		return context.Cause(ctx)
	}
	lock, _ := coord.Held(ctx, l.name)
	if l.flags.verbose {
		fmt.Fprintf(l.stderr, "coord: leading %q, term %d\n", l.name, lock.Token())
	}
	code, told, err := l.runUnder(lock, l.cmd, l.flags.lockFlags)
	asked := l.signals.Asked()
	if asked != nil {
		l.end(child.Interrupted{Signal: asked}) // no campaign follows, whatever has become of the term
	}
	switch {
	case err != nil:
		l.own = err
	case told == child.Lost:
		if asked == nil {
			fmt.Fprintf(l.stderr, "coord: this machine does not lead %q any more: the command has ended, and is started again when it does\n", l.name)
		}
		return coord.ErrLost // Lead takes it for the end if the lease could be renewed after all
	case code != 0:
		l.own = Exit(code, "")
	}
	return l.own
}
