package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/driver"
)

const acquireLong = `Takes the lock NAME, prints its id and its fencing token, and ends. The lock stays taken
until coord release frees it, or for --ttl: nobody renews it. Choose a TTL longer than
the work, and let what the work writes to refuse older tokens.

It is for work in several steps, such as a CI job. Use coord lock for one command: it
renews the lock, and ends the command if the lock is lost.

The output is lines of NAME=VALUE, as GITHUB_ENV and dotenv reports of GitLab want them.
A store that frees a lock when its process ends, such as ZooKeeper, is refused.`

const acquireExample = `  # one step of a job takes the lock, the last one frees it
  coord acquire deploy --ttl 30m --wait 10m >> "$GITHUB_ENV"
  coord release deploy

  # in one script
  id=$(coord acquire deploy --ttl 10m --json | jq -r .id)
  coord release deploy --id "$id"`

func (a *App) acquireLease() *cobra.Command {
	f := lockFlags{conflictExit: ExitRefused}
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "acquire NAME --ttl DURATION",
		Short:             "Take a lock that outlives this process",
		Long:              acquireLong,
		Example:           acquireExample,
		Args:              name,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("ttl") {
				return Usage("no --ttl: how long is the lock taken at most?")
			}
			if err := readable(args[0]); err != nil {
				return err
			}
			cfg, err := a.store.loadShared(cmd.Context())
			if err != nil {
				return err
			}
			cfg.Lock.MinHold = 0 // release frees the lock at once
			if err := f.check(cmd, cfg); err != nil {
				return err
			}
			return a.runAcquire(cmd.Context(), cfg, args[0], f, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&f.ttl, "ttl", 0, "how long the lock stays taken at most")
	flags.DurationVar(&f.wait, "wait", 0, "wait for the lock at most this long (default: as long as it takes)")
	flags.BoolVar(&f.noWait, "no-wait", false, "do not wait for the lock")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "say on standard error who holds the lock")
	flags.BoolVar(&asJSON, "json", false, "print the answer as JSON")
	NoFiles(cmd, "ttl")
	NoFiles(cmd, "wait")
	return cmd
}

// acquired is what --json prints.
type acquired struct {
	Name  string      `json:"name"`
	ID    string      `json:"id"`
	Token coord.Token `json:"token"`
	TTLMS int64       `json:"ttl_ms"`
}

// runAcquire takes the lock and leaves it. The client is closed only if that fails: Close would free the lock.
func (a *App) runAcquire(ctx context.Context, cfg *config.Config, name string, f lockFlags, asJSON bool) (err error) {
	client, err := OpenConfig(ctx, cfg)
	if err != nil {
		return Cause(ctx, err)
	}
	defer func() {
		if err != nil {
			closeInto(client, &err)
		}
	}()
	if info := client.Info(); !info.Claims.Has(driver.MinHoldAfterExit) {
		return Usage("the store %s frees a lock when its process ends: use coord lock, or another store", info.Name)
	}
	lock, err := a.acquire(ctx, client, name, f, coord.NoRenew())
	if err != nil {
		return a.notHad(ctx, client, name, f, err)
	}
	h, err := client.Inspect(ctx, name)
	if err == nil && h.Token != lock.Token() {
		err = fmt.Errorf("%w: %s holds it", coord.ErrLost, who(h))
	}
	if err == nil {
		err = a.printAcquired(acquired{name, h.ID, lock.Token(), lock.TTL().Milliseconds()}, asJSON)
	}
	if err == nil {
		err = ctx.Err() // nobody may have read the id
	}
	if err != nil {
		return Cause(ctx, errors.Join(err, lock.Unlock(context.WithoutCancel(ctx))))
	}
	return nil
}

func (a *App) printAcquired(l acquired, asJSON bool) error {
	if asJSON {
		return writeJSON(a.stdout, l)
	}
	_, err := fmt.Fprintf(a.stdout, "COORD_ID=%s\nCOORD_TOKEN=%d\n", l.ID, l.Token)
	return err
}
