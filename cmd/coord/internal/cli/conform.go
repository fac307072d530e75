package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
)

const conformLong = `Runs the conformance suite on a store and exits with 1 if a case fails. The cases are
those of docs/contract.md. They use keys of their own, which expire, and never stop the
server; cases that need that are told as unproven. Use a store on which a few
minutes of load do no harm.

Network faults are made by a proxy between coord and a store of one host and port
without TLS.`

// conformFlags are the flags of coord conform.
type conformFlags struct {
	only, report string
	parallel     int
	seed         uint64
	verbose      bool
}

func (a *app) conform() *cobra.Command {
	var f conformFlags
	cmd := &cobra.Command{
		Use:   "conform [URL]",
		Short: "Prove that a store keeps the contract",
		Long:  conformLong + "\n\n" + exitHelp,
		Example: `  coord conform redis://127.0.0.1:6379 --report redis.json

  # the cases about limits alone, told one by one
  coord conform file:///tmp/store --run '^LIMIT' --verbose`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			flags, err := a.store.withArg(args)
			if err != nil {
				return err
			}
			if !flags.chosen() {
				return usage("no URL: see %s --help", cmd.CommandPath())
			}
			cfg, err := flags.load()
			if err != nil {
				return err
			}
			only, err := regexp.Compile(f.only)
			if err != nil {
				return usage("--run: %w", err)
			}
			return cause(cmd.Context(), a.runConform(cmd.Context(), string(cfg.URL), only, f))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.only, "run", "", "only the cases whose id/name matches this regular expression")
	flags.StringVar(&f.report, "report", "", "write the report as JSON to this file")
	flags.IntVar(&f.parallel, "parallel", conformance.DefaultParallel, "how many cases run at a time")
	flags.Uint64Var(&f.seed, "seed", 0, "seed of what is random in the cases (default: a random one)")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "tell every case, not only failures")
	for _, name := range []string{"run", "parallel", "seed"} {
		noFiles(cmd, name)
	}
	return cmd
}

func (a *app) runConform(ctx context.Context, rawURL string, only *regexp.Regexp, f conformFlags) error {
	if f.parallel < 1 {
		return usage("--parallel %d: want 1 or more", f.parallel)
	}
	harness, err := harnessFor(ctx, rawURL)
	if err != nil {
		return err
	}
	selected := 0
	suite := &conformance.Suite{
		Harness:  harness,
		Only:     func(c conformance.Case) bool { return only.MatchString(c.FullName()) },
		Parallel: f.parallel,
		Seed:     f.seed,
		Alone:    "coord conform URL --run '^%s$'",
	}
	suite.Finished = func(r conformance.Result) {
		selected++
		a.tellCase(suite, r, f.verbose)
	}
	report, err := suite.Run(ctx)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if selected == 0 {
		return usage("--run %q: no case matches", f.only)
	}
	if f.report != "" {
		if err := writeReport(f.report, report); err != nil {
			return err
		}
	}
	a.printf("%s %s: %d passed, %d failed, %d unsupported, %d unproven in %v\n",
		report.Store.Name, report.Store.Server, report.Count(conformance.Pass), report.Count(conformance.Fail),
		report.Count(conformance.Unsupported), report.Count(conformance.Unproven), report.Took.Round(time.Second))
	if unclaimed := report.Unclaimed(); len(unclaimed) > 0 {
		a.printf("works, but is not claimed: %s\n", list(unclaimed))
	}
	if report.Failed() {
		return exit(exitViolation, "%d of %d cases failed", report.Count(conformance.Fail), len(report.Results))
	}
	return nil
}

// tellCase prints what came of a case.
func (a *app) tellCase(s *conformance.Suite, r conformance.Result, verbose bool) {
	switch {
	case r.Outcome == conformance.Fail:
		a.printf("%-11s %s\n%s\n", r.Outcome, r.FullName(), s.Explain(r))
	case verbose && r.Reason != "":
		a.printf("%-11s %s: %s\n", r.Outcome, r.FullName(), r.Reason)
	case verbose:
		a.printf("%-11s %s %v\n", r.Outcome, r.FullName(), r.Took.Round(time.Millisecond))
	}
}

func writeReport(path string, report *conformance.Report) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(writeJSON(file, report), file.Close())
}

// harnessFor reaches the store by its URL.
func harnessFor(ctx context.Context, rawURL string) (conformance.Harness, error) {
	if strings.HasPrefix(rawURL, "memory:") {
		rawURL = "memory://conform-" + rand.Text() // a store that several clients can share
	}
	b, _, err := coord.OpenBackend(ctx, rawURL)
	if err != nil {
		return conformance.Harness{}, err
	}
	claims := b.Info().Claims
	if err := b.Close(); err != nil {
		return conformance.Harness{}, err
	}
	h := conformance.Harness{
		Open:   func(tb conformance.TB) driver.Backend { return openFor(tb, rawURL) },
		Claims: claims,
	}
	if !claims.Has(driver.ScopeProcess) {
		h.WorkerURL = rawURL
	}
	if u, err := url.Parse(rawURL); err == nil && u.Port() != "" && !strings.Contains(u.Host, ",") && u.Scheme != "rediss" {
		h.Faults = conformance.TCPFaults(u.Host, func(tb conformance.TB, addr string) driver.Backend {
			through := *u
			through.Host = addr
			return openFor(tb, through.String())
		})
	}
	return h, nil
}

func openFor(tb conformance.TB, rawURL string) driver.Backend {
	b, _, err := coord.OpenBackend(tb.Context(), rawURL)
	if err != nil {
		tb.Fatalf("open: %v", err)
	}
	return b
}
