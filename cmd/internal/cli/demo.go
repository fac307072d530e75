package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/coordgo/coord/internal/demo"
)

const demoLong = `Starts real processes on a store and shows what coord promises, in about ten seconds:
processes that share a lock, a holder that is killed, a holder that is paused and resumed,
processes that share a limit. What it prints is measured. It exits with 1 if a promise
is broken.

The store is a directory made for the occasion, unless --url, COORD_URL or --config name
one; there it uses keys of its own, which expire.`

func (a *App) demo() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Show what coord promises, with real processes, in ten seconds",
		Long:  demoLong,
		Example: `  coord demo
  coord demo --url redis://127.0.0.1:6379`,
		Args:              none,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := demo.Options{Out: a.stdout, Colour: a.coloured()}
			if a.store.chosen() {
				cfg, err := a.store.loadOne(cmd.Context())
				if err != nil {
					return err
				}
				o.URL = string(cfg.URL)
			}
			err := demo.Run(cmd.Context(), o)
			if errors.Is(err, demo.ErrBroken) {
				return Exit(ExitViolation, "%w", err)
			}
			return Cause(cmd.Context(), err)
		},
	}
}

func (a *App) demoWorker() *cobra.Command {
	return &cobra.Command{
		Use:    demo.WorkerCommand,
		Hidden: true,
		Args:   none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return Cause(cmd.Context(), demo.Work(cmd.Context(), a.Stdin, a.Stdout))
		},
	}
}

// coloured reports whether standard output shows colours.
func (a *App) coloured() bool { return a.OnTerminal() && a.getenv("NO_COLOR") == "" }
