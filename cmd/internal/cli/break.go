package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

const breakLong = `Takes NAME from its holder, be it a lock, a read/write lock or a permit. Where several
hold it, --id says which one; coord status NAME shows them. The holder finds out at its
next renewal, within a third of its TTL, and the lock stays taken until its lease ends,
so that there are never two holders.

With --now the lock is free at once. Until its next renewal the holder may go on
beside the next one: use it only if you know that the holder is dead. What is
fenced by tokens is safe even then. It also frees a lock that is kept taken, by
--min-hold or after a break without --now.`

func (a *App) breakLock() *cobra.Command {
	var now bool
	var id string
	cmd := &cobra.Command{
		Use:   "break NAME [--id ID]",
		Short: "Take a lock or a permit from its holder",
		Long:  breakLong,
		Example: `  coord status backup && coord break backup

  # its machine has burnt down
  coord break backup --now`,
		Args:              name,
		ValidArgsFunction: a.completesHeld(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			ctx := cmd.Context()
			client, err := a.open(ctx)
			if err != nil {
				return Cause(ctx, err)
			}
			defer closeInto(client, &err)
			return Cause(ctx, a.runBreak(ctx, client.Client, args[0], id, now))
		},
	}
	cmd.Flags().StringVar(&id, "id", "", "the holder, where several hold NAME")
	NoFiles(cmd, "id")
	cmd.Flags().BoolVar(&now, "now", false, "free the lock at once; the holder must be dead")
	return cmd
}

// breakable is a hold that can be broken.
type breakable struct {
	coord.Holder
	what           string // that it holds
	kept           bool   // nobody holds it any more
	broken         bool   // it ends with its lease
	revoke, atOnce func(ctx context.Context, key, id string) error
}

// breakables are all holds of name, or the one of this id.
func breakables(ctx context.Context, client *coord.Client, name, id string) (all []breakable, err error) {
	s, err := statusOf(ctx, client, name)
	if err != nil {
		return nil, err
	}
	if s.Holder != nil {
		all = append(all, breakable{Holder: s.holder, what: fmt.Sprintf("the lock %q", name), kept: s.State == stateKept, revoke: client.Break, atOnce: client.BreakNow})
	}
	for _, m := range s.Members {
		what := fmt.Sprintf("the %s lock %q", m.Mode, name)
		if m.holder.Mode == driver.Permits {
			what = fmt.Sprintf("a permit of %q", name)
		}
		all = append(all, breakable{Holder: m.holder, what: what, broken: m.Broken, revoke: m.view.Break, atOnce: m.view.BreakNow})
	}
	if id != "" {
		all = slices.DeleteFunc(all, func(b breakable) bool { return b.ID != id })
	}
	return all, nil
}

// runBreak breaks the hold that it sees, and no other: one that comes between is left alone.
func (a *App) runBreak(ctx context.Context, client *coord.Client, name, id string, now bool) error {
	all, err := breakables(ctx, client, name, id)
	switch {
	case err != nil:
		return err
	case len(all) == 0 && id != "":
		return Exit(ExitFree, "%q holds nothing of %q", id, name)
	case len(all) == 0:
		return Exit(ExitFree, "nobody holds %q", name)
	case len(all) > 1:
		return Usage("%d hold %q: give the --id of one, as coord status %s shows it", len(all), name, name)
	}
	b := &all[0]
	switch {
	case b.kept && !now:
		return Exit(ExitFree, "nobody holds %s; it is kept taken for another %v: --now frees it", b.what, round(b.TTL))
	case b.broken && !now:
		return Exit(ExitFree, "%s of %s is broken, and free in %v: --now frees it", b.what, who(b.Holder), round(b.TTL))
	}
	revoke, then := b.revoke, fmt.Sprintf("it is free in %v", round(b.TTL))
	if now {
		revoke, then = b.atOnce, "it is free now; two may believe that they hold it, until the old holder's next renewal"
	}
	err = revoke(ctx, name, b.ID)
	switch {
	case errors.Is(err, coord.ErrNotHeld):
		return Exit(ExitFree, "%s has just given up %s", who(b.Holder), b.what)
	case err != nil:
		return err
	case b.kept:
		a.Printf("freed %s, which was kept taken: %s held it last\n", b.what, who(b.Holder))
	default:
		a.Printf("took %s from %s: %s\n", b.what, who(b.Holder), then)
	}
	return nil
}
