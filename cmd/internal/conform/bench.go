package conform

import (
	"context"
	"crypto/rand"
	"net/url"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"github.com/coordgo/coord/cmd/internal/cli"
	"github.com/coordgo/coord/config"
)

const benchLong = `Measures locks and limits on a store: how many a second, how long each takes, how long
a waiter waits, how fairly a key goes round, and how often the store is asked. On the way
it looks whether two ever hold one lock at once, and exits with 1 if they do.

Everything happens in this process, with a client for each that is to be another's. The
keys have a prefix of their own, and are removed or expire. Use a store on which a minute of
full load does no harm. Ctrl-C ends it, and what was measured until then is shown.`

// benchFlags are the flags of coord-conform bench.
type benchFlags struct {
	forEach time.Duration
	only    string
	match   *regexp.Regexp
	json    string // a file
}

func benchCommand(a *cli.App) *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench [URL]",
		Short: "Measure locks and limits on a store",
		Long:  benchLong + "\n\nWhat is measured:\n" + benchHelp(),
		Example: `  coord-conform bench redis://127.0.0.1:6379

  # only locks, half a second each
  coord-conform bench file:///var/lib/myapp/coord --run '^lock' --for 500ms

  coord-conform bench memory:// --json bench.json`,
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
			return runBench(cmd.Context(), a, cfg, f)
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&f.forEach, "for", 3*time.Second, "how long each is measured")
	flags.StringVar(&f.only, "run", "", "only those whose name matches this regular expression")
	flags.StringVar(&f.json, "json", "", "write the figures to this file")
	for _, name := range []string{"for", "run"} {
		cli.NoFiles(cmd, name)
	}
	return cmd
}

// check refuses flags that make no sense.
func (f *benchFlags) check() error {
	if f.forEach < 10*time.Millisecond || f.forEach > 10*time.Minute {
		return cli.Usage("--for %v: want 10ms to 10m", f.forEach)
	}
	var err error
	if f.match, err = regexp.Compile(f.only); err != nil {
		return cli.Usage("--run: %w", err)
	}
	for _, t := range benchTasks() {
		if f.match.MatchString(t.name) {
			return nil
		}
	}
	return cli.Usage("--run %q: nothing that is measured has such a name", f.only)
}

// runBench measures, shows what was found, and writes it.
func runBench(ctx context.Context, a *cli.App, cfg *config.Config, f benchFlags) error {
	b := &benchRun{cfg: cfg, flags: f, prefix: "coord-bench/" + rand.Text()[:8] + "/"}
	if u, err := url.Parse(string(cfg.URL)); err == nil && u.Scheme == "memory" && u.Host == "" {
		shared := *cfg
		shared.URL = config.URL("memory://bench-" + rand.Text()) // a store that several clients can share
		b.cfg = &shared
	}
	r, err := measure(ctx, a, b)
	if r == nil {
		return cli.Cause(ctx, err)
	}
	r.URL = cfg.URL.String()
	if werr := r.write(f.json); werr != nil {
		return werr
	}
	switch {
	case ctx.Err() != nil:
		return cli.Cause(ctx, ctx.Err())
	case err != nil:
		return err
	case r.overlaps() > 0:
		return cli.Exit(cli.ExitViolation, "two held one lock at once, %d times", r.overlaps())
	}
	return nil
}
