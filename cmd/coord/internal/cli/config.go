package cli

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/config"
)

func (a *app) config() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "config",
		Short:   "Check configuration files",
		Long:    "Checks configuration files, as docs/configuration.md describes them.",
		Example: "  coord config check coord.yaml",
		Args:    none,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.configCheck())
	return cmd
}

func (a *app) configCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration file without opening its store",
		Long: `Checks FILE, or the one that --config names, without opening its store, and prints what
it comes to. A mistake is told with file and line, and the exit status is 78.`,
		Example: `  coord config check coord.yaml
  coord config check deploy/coord.yaml && git commit`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			flags := a.store
			switch {
			case len(args) > 1:
				return usage("unexpected argument %q: want one FILE", args[1])
			case len(args) == 1 && flags.file != "":
				return usage("a FILE beside --config: give one of them")
			case len(args) == 1:
				flags.file = args[0]
			case flags.file == "":
				return usage("no FILE: see %s --help", cmd.CommandPath())
			}
			cfg, err := flags.loadFile()
			if err != nil {
				return err
			}
			a.printConfig(cfg)
			return nil
		},
	}
}

func (a *app) printConfig(cfg *config.Config) {
	lines := [][2]string{{"url", cfg.URL.String()}, {"prefix", cfg.Prefix}, {"require", list(cfg.Require)}, {"failure_policy", "closed"}}
	if cfg.FailurePolicy == coord.FailOpen {
		lines[3][1] = "open"
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"ttl", cfg.Lock.TTL}, {"wait", cfg.Lock.Wait}, {"max_hold", cfg.Lock.MaxHold}, {"min_hold", cfg.Lock.MinHold}} {
		if d.value > 0 {
			lines = append(lines, [2]string{"lock." + d.name, d.value.String()})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Limits)) {
		lines = append(lines, [2]string{"limits." + name, fmt.Sprint(cfg.Limits[name])})
	}
	lines = slices.DeleteFunc(lines, func(l [2]string) bool { return l[1] == "" })
	a.printPairs(lines)
}
