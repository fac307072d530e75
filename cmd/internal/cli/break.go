package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coordgo/coord"
)

const breakLong = `Takes the lock NAME from its holder. The holder finds out at its next renewal, within a
third of its TTL, and the lock stays taken until its lease ends, so that there are
never two holders.

With --now the lock is free at once. Until its next renewal the holder may go on
beside the next one: use it only if you know that the holder is dead. What is
fenced by tokens is safe even then. It also frees a lock that is kept taken, by
--min-hold or after a break without --now.`

func (a *App) breakLock() *cobra.Command {
	var now bool
	cmd := &cobra.Command{
		Use:   "break NAME",
		Short: "Take a lock from its holder",
		Long:  breakLong,
		Example: `  coord status backup && coord break backup

  # its machine has burnt down
  coord break backup --now`,
		Args:              name,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			ctx := cmd.Context()
			client, err := a.open(ctx)
			if err != nil {
				return Cause(ctx, err)
			}
			defer closeInto(client, &err)
			return Cause(ctx, a.runBreak(ctx, client.Client, args[0], now))
		},
	}
	cmd.Flags().BoolVar(&now, "now", false, "free the lock at once; the holder must be dead")
	return cmd
}

// runBreak breaks the hold that it sees, and no other: one that comes between is left alone.
func (a *App) runBreak(ctx context.Context, client *coord.Client, name string, now bool) error {
	s, err := inspect(ctx, client, name)
	switch {
	case err != nil:
		return err
	case s.State == stateFree:
		return Exit(ExitFree, "nobody holds the lock %q", name)
	case s.State == stateKept && !now:
		return Exit(ExitFree, "nobody holds the lock %q; it is kept taken for another %v: --now frees it", name, round(s.holder.TTL))
	}
	revoke, then := client.Break, fmt.Sprintf("it is free in %v", round(s.holder.TTL))
	if now {
		revoke, then = client.BreakNow, "it is free now; two may believe that they hold it, until the old holder's next renewal"
	}
	err = revoke(ctx, name, s.holder.ID)
	if errors.Is(err, coord.ErrNotHeld) {
		return Exit(ExitFree, "%s has just given up the lock %q", who(s.holder), name)
	}
	if err != nil {
		return err
	}
	if s.State == stateKept {
		a.Printf("freed the lock %q, which was kept taken: %s held it last\n", name, who(s.holder))
		return nil
	}
	a.Printf("took the lock %q from %s: %s\n", name, who(s.holder), then)
	return nil
}
