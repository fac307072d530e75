package cli

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/config"
)

const overrideLong = `Multiplies a limit, or those of a rule for one subject, by --factor, until a time or for
a while. It is kept in the store. Programs apply it within a second if their client is
made WithOverrides, or their file says overrides: true; so does this command with such a
file. What was taken counts on. An override that is there is replaced.

Stores: all but memcached and ZooKeeper.`

func (a *App) limitOverride() *cobra.Command {
	var (
		f      accountFlags
		factor float64
		lasts  time.Duration
		until  string
		end    bool
	)
	cmd := &cobra.Command{
		Use:   "override [NAME | --rule NAME --subject VALUE] {--factor N {--for TIME | --until TIME} | --end}",
		Short: "Multiply a limit for a while",
		Long:  overrideLong,
		Example: `  # ten times as much for ann until Friday
  coord --config coord.yaml limit override --rule orders --subject ann --factor 10 --until 2026-12-04

  coord limit override supplier --factor 0.5 --for 2h
  coord limit override supplier --end`,
		ValidArgsFunction: a.afterName(a.limitNames),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			given := cmd.Flags().Changed
			switch {
			case end == given("factor"), given("for") && given("until"), end && (given("for") || given("until")), !end && !given("for") && !given("until"):
				return Usage("want --factor with --for or --until, or --end alone: see %s --help", cmd.CommandPath())
			case given("until"):
				if lasts, err = untilTime(until, time.Now()); err != nil {
					return err
				}
			}
			ctx := cmd.Context()
			cfg, err := a.store.loadShared(ctx)
			if err != nil {
				return err
			}
			keys, err := f.keys(cmd, cfg, args)
			if err != nil {
				return err
			}
			client, err := OpenConfig(ctx, cfg)
			if err != nil {
				return Cause(ctx, err)
			}
			defer closeInto(client, &err)
			var made []coord.Override
			for _, key := range keys {
				if end {
					err = client.EndOverride(ctx, key)
				} else {
					err = client.Override(ctx, key, factor, lasts)
					made = append(made, coord.Override{Key: key, Factor: factor, Left: lasts})
				}
				if end && errors.Is(err, coord.ErrNotHeld) {
					err = Exit(ExitFree, "%q has no override", key)
				}
				if err != nil {
					return Cause(ctx, err)
				}
			}
			if end {
				return nil
			}
			return a.printOverrides(made, false)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.rule, "rule", "", "the limits of this rule of --config, in place of NAME")
	flags.StringArrayVar(&f.subjects, "subject", nil, "what the rule counts by; once for each part of a combination")
	flags.Float64Var(&factor, "factor", 0, "by how much: 10 is ten times as much, 0.5 a half")
	flags.DurationVar(&lasts, "for", 0, "how long, such as 48h")
	flags.StringVar(&until, "until", "", `until when: "2026-12-04", "2026-12-04 18:00" or RFC 3339`)
	flags.BoolVar(&end, "end", false, "end the override")
	for _, flag := range []string{"rule", "subject", "factor", "for", "until"} {
		NoFiles(cmd, flag)
	}
	return cmd
}

// untilTime is how long it is until a time.
func untilTime(text string, now time.Time) (time.Duration, error) {
	for _, layout := range []string{time.DateOnly, "2006-01-02 15:04", time.DateTime, time.RFC3339} {
		at, err := time.ParseInLocation(layout, text, now.Location())
		if err != nil {
			continue
		}
		if !at.After(now) {
			return 0, Usage("--until %s is over", text)
		}
		return at.Sub(now), nil
	}
	return 0, Usage(`--until %q: want "2006-01-02", "2006-01-02 15:04" or RFC 3339`, text)
}

// keys are those of NAME, or of the rule and its subject, each once.
func (f *accountFlags) keys(cmd *cobra.Command, cfg *config.Config, args []string) (keys []string, err error) {
	if f.isName(args) {
		return args, nil
	}
	accounts, err := f.ofRule(cmd, cfg, args)
	for _, acc := range accounts {
		if n := len(keys); n == 0 || keys[n-1] != acc.key {
			keys = append(keys, acc.key)
		}
	}
	return keys, err
}

// overrideStatus is what --json prints of an override.
type overrideStatus struct {
	Key    string  `json:"key"`
	Factor float64 `json:"factor"`
	LeftMS int64   `json:"left_ms"`
}

func (a *App) limitOverrides() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "overrides",
		Short:             "List what coord limit override has done",
		Example:           "  coord limit overrides",
		Args:              none,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			ctx := cmd.Context()
			client, err := a.open(ctx)
			if err != nil {
				return Cause(ctx, err)
			}
			defer closeInto(client, &err)
			list, err := client.Overrides(ctx)
			if err != nil {
				return Cause(ctx, err)
			}
			return a.printOverrides(list, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print each as a line of JSON")
	return cmd
}

func (a *App) printOverrides(list []coord.Override, asJSON bool) error {
	if asJSON {
		for _, o := range list {
			if err := writeJSONLine(a.stdout, overrideStatus{o.Key, o.Factor, ceilMS(o.Left)}); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, columnGap, ' ', 0)
	fmt.Fprintln(w, "FACTOR\tUNTIL\tKEY")
	for _, o := range list {
		fmt.Fprintf(w, "%v\t%s\t%s\n", o.Factor, time.Now().Add(o.Left).Format("2006-01-02 15:04 MST"), printable(o.Key))
	}
	_ = w.Flush() // a.stdout has noted what could not be written
	return nil
}

// overridesOf are the overrides that programs with this file apply, by key. Where they cannot be read there are none: no
// decision depends on them.
func overridesOf(ctx context.Context, cfg *config.Config, client *coord.Client) map[string]coord.Override {
	byKey := map[string]coord.Override{}
	if cfg.Overrides {
		list, _ := client.Overrides(ctx) // which client applies from now on, too
		for _, o := range list {
			byKey[o.Key] = o
		}
	}
	return byKey
}
