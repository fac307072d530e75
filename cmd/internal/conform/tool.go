// Package conform is the command line of coord-conform: the suite and the
// measurements, for whoever writes an adapter or chooses a store.
package conform

import (
	"github.com/spf13/cobra"

	"github.com/coordgo/coord/cmd/internal/cli"
)

const long = `coord-conform proves that a store keeps what coord promises, and measures what locks and
limits cost on it. It loads the store: use one on which that does no harm.

The store is, in this order: the URL of the command, --url or --local, COORD_URL, or the
url in the file that --config names.

Errors are one line on standard error. coord-conform help exit-codes lists the exit status.`

const example = `  # every case of the suite, with a report
  coord-conform run redis://127.0.0.1:6379 --report redis.md

  # locks and limits a second, and how long each takes
  coord-conform bench redis://127.0.0.1:6379`

// Tool is the command coord-conform.
func Tool() cli.Tool {
	return cli.Tool{Name: "coord-conform", Short: "Prove that a store keeps coord's contract, and measure it", Long: long, Example: example, Commands: func(a *cli.App, _ func()) []cli.Group {
		return []cli.Group{{Title: "Prove and measure a store", Commands: []*cobra.Command{runCommand(a), benchCommand(a)}}}
	}}
}
