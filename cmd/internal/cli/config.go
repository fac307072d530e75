package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/server/envoy"
)

func (a *App) config() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "config",
		Short:   "Check and show configuration",
		Long:    "Checks and shows configuration, as docs/configuration.md describes it.",
		Example: "  coord config check coord.yaml\n  coord config show coord.yaml",
		Args:    none,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.configCheck(), a.configShow(), a.configSchema())
	return cmd
}

func (a *App) configCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration file without opening its store",
		Long: `Checks FILE, or the one that --config names, with the environment, and prints what they
say. The store is not opened, and secrets that a URL refers to are not looked up. It shows
all mistakes, each with file and line, and the exit status is 78. When there is none,
the URLs are checked (schemes, hosts, parameters), and the files of serve.envoy, if they are here.`,
		Example: `  coord config check coord.yaml
  coord config check deploy/coord.yaml && git commit`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			flags, err := a.store.withFile(args)
			if err != nil {
				return err
			}
			if flags.file == "" {
				return Usage("no FILE: see %s --help", cmd.CommandPath())
			}
			cfg, err := flags.loadFile(cmd.Context())
			var several interface{ Unwrap() []error }
			if errors.As(err, &several) {
				for _, one := range several.Unwrap() {
					fmt.Fprintln(a.stderr, "coord: "+OneLine(one))
				}
				return Exit(ExitConfig, "")
			}
			if err != nil {
				return err
			}
			mistakes := urlMistakes(cmd.Context(), cfg)
			wrong, absent := envoy.Check(cfg)
			for _, path := range absent { // as where a file for other machines is checked
				fmt.Fprintf(a.stderr, "coord: serve.envoy.files: %s is not on this machine, and was not checked\n", path)
			}
			for _, one := range wrong {
				mistakes = append(mistakes, OneLine(one))
			}
			if len(mistakes) > 0 {
				for _, one := range mistakes {
					fmt.Fprintln(a.stderr, "coord: "+one)
				}
				return Exit(ExitConfig, "")
			}
			var lines [][2]string
			for _, v := range cfg.Values() {
				if v.From != "default" {
					lines = append(lines, [2]string{v.Key, v.Value})
				}
			}
			a.printPairs(lines)
			return nil
		},
	}
}

// urlMistakes says what the backends find wrong with the URLs. They read a URL before they look at the context, which has
// ended, so nothing is opened but memory. A URL that refers to a secret is left out.
func urlMistakes(ctx context.Context, cfg *config.Config) (mistakes []string) {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	from := make(map[string]string)
	for _, v := range cfg.Values() {
		from[v.Key] = v.From
	}
	check := func(key string, u config.URL) {
		if u == "" || strings.Contains(string(u), "${") {
			return
		}
		backend, _, err := driver.Open(ended, string(u))
		if err == nil {
			err = backend.Close()
		}
		if errors.Is(err, driver.ErrInvalid) {
			mistakes = append(mistakes, fmt.Sprintf("%s: %s: %s", from[key], key, OneLine(err)))
		}
	}
	check("url", cfg.URL)
	check("url.locks", cfg.LocksURL)
	check("url.limits", cfg.LimitsURL)
	for i, u := range cfg.Quorum {
		check(fmt.Sprintf("quorum.%d", i), u)
	}
	return mistakes
}

func (a *App) configShow() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show [FILE]",
		Short: "Show what is in force, and where each value is from",
		Long: `Shows what FILE, or the one that --config names, the environment, --url and the defaults come
to: each key, its value, and where that is from. Passwords are not shown, and the store is
not opened.`,
		Example: `  coord config show coord.yaml
  COORD_LOCK_TTL=1m coord config show coord.yaml --json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			flags, err := a.store.withFile(args)
			if err != nil {
				return err
			}
			cfg, err := flags.loadAny(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(a.stdout, cfg.Values())
			}
			w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			for _, v := range cfg.Values() {
				fmt.Fprintf(w, "%s\t%s\t%s\n", v.Key, v.Value, v.From)
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print key, value and from as JSON")
	return cmd
}

func (a *App) configSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON schema of the file, for editors",
		Long: `Prints the JSON schema (draft 7) of the file. An editor that finds it by a comment in the file
completes keys and underlines mistakes:

  # yaml-language-server: $schema=coord.schema.json`,
		Example: "  coord config schema > coord.schema.json",
		Args:    none,
		RunE: func(*cobra.Command, []string) error {
			_, err := a.stdout.Write(config.Schema())
			return err
		},
	}
}
