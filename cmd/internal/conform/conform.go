package conform

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coordgo/coord/cmd/internal/cli"
	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
)

const conformLong = `Runs the conformance suite on a store and exits with 1 if a case fails. The cases are
those of docs/contract.md. They use keys of their own, which expire, and never stop the server; cases that need
that are reported as unproven. Use a store on which a few minutes of load do no harm.

Network faults are made by a proxy between coord and a store of one host and port
without TLS.`

// conformFlags are the flags of coord-conform run.
type conformFlags struct {
	only    string
	noProxy bool
	command conformance.Command
}

func runCommand(a *cli.App) *cobra.Command {
	var f conformFlags
	cmd := &cobra.Command{
		Use:   "run [URL]",
		Short: "Prove that a store keeps the contract",
		Long:  conformLong,
		Example: `  coord-conform run redis://127.0.0.1:6379 --report redis.json --report redis.md

  # the cases about limits alone, told one by one
  coord-conform run file:///var/lib/myapp/coord --run '^LIMIT' --verbose`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := a.StoreOf(cmd, args)
			if err != nil {
				return err
			}
			if err := f.check(); err != nil {
				return err
			}
			f.command.Suite.Alone = "coord-conform run --seed {seed} --run '^{case}$' '" + cfg.URL.String() + "'"
			return cli.Cause(cmd.Context(), runConform(cmd.Context(), a, string(cfg.URL), f))
		},
	}
	flags, s := cmd.Flags(), &f.command.Suite
	flags.BoolVar(&s.Fast, "fast", false, "leave slow cases out: they are reported as unproven")
	flags.StringVar(&f.only, "run", "", "only the cases whose id, or id/name, matches this regular expression")
	flags.StringArrayVar(&f.command.Reports, "report", nil, "write the report to this file, as its ending says: .json or .md; may be repeated")
	flags.IntVar(&s.Parallel, "parallel", conformance.DefaultParallel, "how many cases run at a time")
	flags.Uint64Var(&s.Seed, "seed", 0, "seed of what is random in the cases (default: a random one)")
	flags.BoolVar(&f.noProxy, "no-proxy", false, "make no network faults")
	flags.BoolVarP(&f.command.Verbose, "verbose", "v", false, "tell every case, not only failures")
	for _, name := range []string{"run", "parallel", "seed"} {
		cli.NoFiles(cmd, name)
	}
	return cmd
}

// check refuses flags that make no sense, and makes of --run a selection.
func (f *conformFlags) check() error {
	if f.command.Suite.Parallel < 1 {
		return cli.Usage("--parallel %d: want 1 or more", f.command.Suite.Parallel)
	}
	for _, path := range f.command.Reports {
		if err := conformance.CheckFile(path); err != nil {
			return cli.Usage("--report: %w", err)
		}
	}
	only, err := conformance.Matching(f.only)
	if err != nil {
		return cli.Usage("%w", err)
	}
	f.command.Suite.Only = only
	return nil
}

func runConform(ctx context.Context, a *cli.App, rawURL string, f conformFlags) error {
	harness, err := harnessFor(ctx, rawURL)
	if err != nil {
		return err
	}
	if f.noProxy {
		harness.Faults = nil
	}
	c := f.command
	c.Suite.Harness, c.Out = harness, a.Out()
	report, err := c.Run(ctx)
	switch {
	case errors.Is(err, conformance.ErrNoStore):
		return cli.Exit(cli.ExitUnavailable, "%w", err)
	case errors.Is(err, conformance.ErrNoCase):
		return cli.Usage("--run %q: no case matches", f.only)
	case err != nil:
		return err
	case report.Failed():
		return cli.Exit(cli.ExitViolation, "%d of %d cases failed, %d deviations are declared that are none",
			report.Count(conformance.Fail), len(report.Results), len(report.Stale()))
	}
	return nil
}

// harnessFor reaches the store by its URL.
func harnessFor(ctx context.Context, rawURL string) (conformance.Harness, error) {
	if strings.HasPrefix(rawURL, "memory:") {
		rawURL = "memory://conform-" + rand.Text() // a store that several clients can share
	}
	u, err := driver.ParseURL(rawURL)
	if err != nil {
		return conformance.Harness{}, cli.Usage("the URL is malformed")
	}
	open := func(ctx context.Context, u *url.URL) (driver.Backend, error) {
		b, _, err := driver.Open(ctx, u.String())
		return b, err
	}
	h, err := conformance.URLHarness(ctx, open, u, nil)
	if err != nil || h.Faults == nil {
		return h, err
	}
	switch u.Scheme {
	case "redis", "zookeeper", "memcached", "postgres", "postgresql":
	case "etcd": // gRPC: what is a reply takes a look at the frames
		h.Faults = conformance.HTTP2Faults(u.Host, func(tb conformance.TB, addr string) driver.Backend {
			through := *u
			through.Host = addr
			b, err := open(tb.Context(), &through)
			if err != nil {
				tb.Fatalf("open: %v", err)
			}
			return b
		})
	default: // TLS, or clients that find other addresses by themselves
		h.Faults = nil
	}
	return h, nil
}
