package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/driver"
)

// sharing is how a command shares its lock with others.
type sharing struct {
	read, write     bool
	permits, weight int // of a semaphore
}

func (s *sharing) isShared() bool { return s.read || s.write || s.permits > 0 }

// check refuses what contradicts itself.
func (s *sharing) check(minHold time.Duration) error {
	switch {
	case s.read && s.write:
		return Usage("--read and --write contradict each other: give one of them")
	case s.isShared() && minHold > 0:
		return Usage("--min-hold with a lock that others share: want one of them")
	}
	return nil
}

// locker is what the lock is taken of.
func (s *sharing) locker(client *config.Client) coord.Locker {
	switch {
	case s.read:
		return client.ReadWrite().Read()
	case s.write:
		return client.ReadWrite().Write()
	case s.permits > 0:
		return client.Semaphore(s.permits)
	}
	return client
}

// view is what shows the holders of a shared lock.
func (s *sharing) view(client *coord.Client) *coord.Shared {
	if s.permits > 0 {
		return client.Semaphore(s.permits)
	}
	return client.ReadWrite().Read()
}

// takenBySeveral says that a shared lock is taken, and by whom.
func (s *sharing) takenBySeveral(ctx context.Context, client *config.Client, name string) string {
	text := fmt.Sprintf("the lock %q is taken", name)
	if s.permits > 0 {
		text = fmt.Sprintf("no permit of %q is free", name)
	}
	asking, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	holders, err := s.view(client.Client).Holders(asking, name)
	switch {
	case err != nil || len(holders) == 0:
		return text
	case len(holders) == 1:
		return text + ": held by " + who(holders[0])
	}
	return fmt.Sprintf("%s: held by %s and %d more", text, who(holders[0]), len(holders)-1)
}

const semaphoreLong = `Runs CMD while holding a permit of the semaphore NAME, of which -n says how many there
are, and gives CMD's exit status. So at most that many run at a time, on all
machines together. It waits for a permit as long as it takes, unless --wait or
--no-wait says otherwise.

CMD has COORD_SLOT in its environment: a number from 0, less than -n, that no other
holder has at the time; and COORD_LOCK and COORD_TOKEN, as with coord lock.
Fence by the slot: its tokens rise.

The permit is renewed, lost and freed as the lock of coord lock is. -n is not stored:
while commands with different -n run, the least counts.`

func (a *App) semaphore(stop func()) *cobra.Command {
	var f lockFlags
	cmd := &cobra.Command{
		Use:   "semaphore NAME -n PERMITS [flags] -- CMD [ARG]...",
		Short: "Run a command while at most n run at a time",
		Long:  semaphoreLong,
		Example: `  # three builds at a time on all machines
  coord semaphore build -n 3 -- make

  # a large one counts as two
  coord semaphore build -n 3 --weight 2 -- make world`,
		ValidArgsFunction: a.afterName(noNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("permits") {
				return Usage("no -n: how many permits are there?")
			}
			if f.permits < 1 || f.weight < 1 || f.weight > f.permits {
				return Usage("-n %d --weight %d: want at least 1 of each, and a weight of at most -n", f.permits, f.weight)
			}
			name, command, cfg, err := a.lockCommand(cmd, args, &f)
			if err != nil {
				return err
			}
			return a.runLock(cmd.Context(), stop, cfg, name, command, f)
		},
	}
	f.define(cmd)
	flags := cmd.Flags()
	flags.IntVarP(&f.permits, "permits", "n", 0, "how many permits there are (needed)")
	flags.IntVar(&f.weight, "weight", 1, "how many of them CMD takes")
	NoFiles(cmd, "permits")
	NoFiles(cmd, "weight")
	return cmd
}

const membersLong = `Shows who holds the read/write lock NAME, or with --semaphore the permits of NAME, a
line for each holder, in the order in which they came. It exits with 3 if there is
nobody.

A group of processes is a read lock that each of them holds: coord lock NAME --read.`

func (a *App) members() *cobra.Command {
	var asJSON, permits bool
	cmd := &cobra.Command{
		Use:   "members NAME",
		Short: "Show who shares a read/write lock or a semaphore",
		Long:  membersLong,
		Example: `  coord members workers
  coord members build --semaphore --json | jq -r .name`,
		Args:              name,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			ctx := cmd.Context()
			client, err := a.open(ctx)
			if err != nil {
				return Cause(ctx, err)
			}
			defer closeInto(client, &err)
			s := sharing{read: true}
			if permits {
				s = sharing{permits: 1} // any number shows all
			}
			holders, err := s.view(client.Client).Holders(ctx, args[0])
			if err != nil {
				return Cause(ctx, err)
			}
			return a.printMembers(holders, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print each holder as a line of JSON")
	cmd.Flags().BoolVar(&permits, "semaphore", false, "show the holders of permits")
	return cmd
}

// memberStatus is a line of --json.
type memberStatus struct {
	*holderStatus
	Mode   string `json:"mode"`
	Slot   int    `json:"slot"`
	Weight int64  `json:"weight,omitempty"`
	Of     int64  `json:"of,omitempty"`
	LeftMS int64  `json:"left_ms"`
	Broken bool   `json:"broken,omitempty"`
}

func (a *App) printMembers(holders []coord.Holder, asJSON bool) error {
	for _, h := range holders {
		if !asJSON {
			a.Printf("%s\n", memberLine(h))
			continue
		}
		line, err := json.Marshal(memberStatus{
			holderStatus: statusOfHolder(h), Mode: h.Mode.String(), Slot: h.Slot, Weight: h.Weight, Of: h.Of,
			LeftMS: ceilMS(h.TTL), Broken: h.Released,
		})
		if err != nil {
			return err
		}
		if _, err := a.stdout.Write(append(printableJSON(line), '\n')); err != nil {
			return err
		}
	}
	if len(holders) == 0 {
		return Exit(ExitFree, "")
	}
	return nil
}

// memberLine is what people read of one holder.
func memberLine(h coord.Holder) string {
	what := h.Mode.String()
	if h.Mode == driver.Permits {
		what = strconv.FormatInt(h.Weight, 10) + " of " + strconv.FormatInt(h.Of, 10)
	}
	if h.Released {
		what += ", broken"
	}
	return fmt.Sprintf("%d  %s  %s  token %d  %v left", h.Slot, what, who(h), h.Token, round(h.TTL))
}
