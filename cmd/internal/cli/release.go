package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

const releaseLong = `Frees the lock NAME that coord acquire has taken. The id is that which coord acquire
printed: --id, or the variable COORD_ID.

It frees no other hold. If the lease is over, or somebody broke the lock, it says who holds
the lock now and exits with 74: the work since then was not protected.`

// envID is the variable that coord acquire prints and coord release reads.
const envID = "COORD_ID"

func (a *App) releaseLease() *cobra.Command {
	var id string
	cmd := &cobra.Command{
		Use:   "release NAME",
		Short: "Free a lock that coord acquire has taken",
		Long:  releaseLong,
		Example: `  coord release deploy
  coord release deploy --id "$id"`,
		Args:              name,
		ValidArgsFunction: a.completesHeld(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if !cmd.Flags().Changed("id") {
				id = a.getenv(envID)
			}
			if id == "" {
				return Usage("no id: want --id or %s, as coord acquire prints it", envID)
			}
			if _, _, _, err := driver.ParseID(id); err != nil {
				return Usage("%q is no id: want what coord acquire prints", id)
			}
			ctx := cmd.Context()
			client, err := a.open(ctx)
			if err != nil {
				return Cause(ctx, err)
			}
			defer closeInto(client, &err)
			return Cause(ctx, release(ctx, client.Client, args[0], id))
		},
	}
	cmd.Flags().StringVar(&id, "id", "", "what coord acquire has printed (default COORD_ID)")
	NoFiles(cmd, "id")
	return cmd
}

// release frees the hold of id, and no other. One that was broken is lost: it is told as such, and stays taken.
func release(ctx context.Context, client *coord.Client, name, id string) error {
	s, seen := inspect(ctx, client, name)
	if seen != nil || s.State == stateHeld && s.holder.ID == id {
		err := client.BreakNow(ctx, name, id)
		if !errors.Is(err, coord.ErrNotHeld) {
			return err
		}
		s, seen = inspect(ctx, client, name)
	}
	now := "nobody holds it now"
	if seen != nil {
		now = "who holds it now is not known: " + OneLine(seen)
	} else if s.State == stateHeld {
		now = who(s.holder) + " holds it now"
	}
	return Exit(ExitLost, "the lock %q was not held under this id any more: %s", name, now)
}
