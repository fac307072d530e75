package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/config"
)

// account is one count at the store: a limit under a key.
type account struct {
	name  string // of the limit, or of the rule
	key   string
	limit coord.Limit
}

// accountFlags say which accounts a command is about.
type accountFlags struct {
	limitFlags
	rule     string
	subjects []string
}

// define makes the flags.
func (f *accountFlags) define(cmd *cobra.Command) {
	f.defineRate(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.rule, "rule", "", "the limits of this rule of --config, in place of NAME")
	flags.StringArrayVar(&f.subjects, "subject", nil, "what the rule counts by: an address, a user, a header's value; once for each part of a combination")
	flags.BoolVar(&f.json, "json", false, "print each as a line of JSON")
	NoFiles(cmd, "rule")
	NoFiles(cmd, "subject")
}

// accounts are those of NAME, or of the rule and its subject.
func (f *accountFlags) accounts(cmd *cobra.Command, cfg *config.Config, args []string) ([]account, error) {
	if f.isName(args) {
		limit, err := f.limit(cmd, cfg, args[0])
		return []account{{args[0], args[0], limit}}, err
	}
	return f.ofRule(cmd, cfg, args)
}

// isName reports whether the command is about a NAME.
func (f *accountFlags) isName(args []string) bool {
	return f.rule == "" && len(args) == 1 && len(f.subjects) == 0
}

// ofRule are the accounts of the rule and its subject.
func (f *accountFlags) ofRule(cmd *cobra.Command, cfg *config.Config, args []string) ([]account, error) {
	if f.rule == "" || len(args) > 0 || cmd.Flags().Changed("rate") {
		return nil, Usage("want a NAME, or --rule with its --subject: see %s --help", cmd.CommandPath())
	}
	bounds, err := cfg.Rules.Account(f.rule, f.subjects...)
	if err != nil {
		return nil, Usage("%s", OneLine(err))
	}
	var list []account
	for _, b := range bounds {
		list = append(list, account{b.Name(), b.Demand.Key, b.Demand.Limit})
	}
	return list, nil
}

// overAccounts is a command that does something to each account, and shows it as it is then.
func (a *App) overAccounts(cmd *cobra.Command, f *accountFlags, do func(ctx context.Context, c *coord.Client, acc account) (coord.Result, error)) *cobra.Command {
	cmd.ValidArgsFunction = a.afterName(a.limitNames)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		ctx := cmd.Context()
		cfg, err := a.store.loadShared(ctx)
		if err != nil {
			return err
		}
		accounts, err := f.accounts(cmd, cfg, args)
		if err != nil {
			return err
		}
		client, err := OpenConfig(ctx, cfg)
		if err != nil {
			return Cause(ctx, err)
		}
		defer closeInto(client, &err)
		var seen []accountStatus
		overrides := overridesOf(ctx, cfg, client.Client)
		for _, acc := range accounts {
			r, err := do(ctx, client.Client, acc)
			if err == nil {
				err = r.Degraded // the failure policy has answered, not the store
			}
			if err != nil {
				return Cause(ctx, err)
			}
			if o, is := overrides[acc.key]; is {
				acc.name, acc.limit = fmt.Sprintf("%s ×%v", acc.name, o.Factor), o.Of(acc.limit)
			}
			seen = append(seen, accountStatus{newLimitStatus(acc.name, acc.limit, r), acc.key})
		}
		return a.printAccounts(seen, f.json)
	}
	f.define(cmd)
	return cmd
}

// accountStatus is what --json prints of one account.
type accountStatus struct {
	limitStatus
	Key string `json:"key"`
}

func (a *App) printAccounts(list []accountStatus, asJSON bool) error {
	if asJSON {
		for _, s := range list {
			if err := writeJSONLine(a.stdout, s); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, columnGap, ' ', 0)
	fmt.Fprintln(w, "LIMIT\tLEFT\tOF\tNEXT IN\tFULL IN\tKEY")
	in := func(ms int64) string {
		if ms == 0 {
			return "-"
		}
		return round(time.Duration(ms) * time.Millisecond).String()
	}
	for _, s := range list {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\n", printable(s.Name), s.Remaining, s.Limit, in(s.RetryAfterMS), in(s.ResetAfterMS), printable(s.Key))
	}
	_ = w.Flush() // a.stdout has noted what could not be written
	return nil
}

func (a *App) limitPeek() *cobra.Command {
	return a.overAccounts(&cobra.Command{
		Use:   "peek [NAME | --rule NAME --subject VALUE]",
		Short: "Show what is left of a limit, and take nothing",
		Example: `  coord limit peek supplier --rate 2000/1m

  # why is ann limited?
  coord --config coord.yaml limit peek --rule orders --subject ann`,
	}, new(accountFlags), func(ctx context.Context, c *coord.Client, acc account) (coord.Result, error) {
		return c.Peek(ctx, acc.key, acc.limit)
	})
}

func (a *App) limitReset() *cobra.Command {
	return a.overAccounts(&cobra.Command{
		Use:   "reset [NAME | --rule NAME --subject VALUE]",
		Short: "Forget what was taken from a limit",
		Long: `Forgets what was taken from a limit, so that all of its permits are there again. A client
that was denied asks again within a second. Permits that a client has taken in advance
stay with it.`,
		Example: `  # let ann in
  coord --config coord.yaml limit reset --rule orders --subject ann`,
	}, new(accountFlags), func(ctx context.Context, c *coord.Client, acc account) (coord.Result, error) {
		if err := c.Reset(ctx, acc.key, acc.limit); err != nil {
			return coord.Result{}, err
		}
		return c.Peek(ctx, acc.key, acc.limit)
	})
}

func (a *App) limitCharge() *cobra.Command {
	f := new(accountFlags)
	cmd := a.overAccounts(&cobra.Command{
		Use:   "charge [NAME | --rule NAME --subject VALUE] -n PERMITS",
		Short: "Debit permits of a limit, whatever is left",
		Long: `Debits permits of a limit, whatever is left of it. What is beyond the limit is a debt:
requests are denied until it is repaid.`,
		Example: `  coord limit charge tenant/acme --rate 100000/1m --burst 20000 -n 35000`,
	}, f, func(ctx context.Context, c *coord.Client, acc account) (coord.Result, error) {
		return c.Charge(ctx, acc.key, acc.limit, f.n)
	})
	cmd.Flags().IntVarP(&f.n, "permits", "n", 1, "how many permits")
	NoFiles(cmd, "permits")
	return cmd
}

func (a *App) limitList() *cobra.Command {
	return &cobra.Command{
		Use:               "list",
		Short:             "List the limits and the rules of --config",
		Example:           "  coord --config coord.yaml limit list",
		Args:              none,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.store.loadAny(cmd.Context())
			if err != nil {
				return err
			}
			rules := cfg.Rules.Rules()
			if len(cfg.Limits)+len(rules) == 0 {
				return Usage("no limits and no rules: give --config with a file that has some")
			}
			w := tabwriter.NewWriter(a.stdout, 0, 0, columnGap, ' ', 0)
			fmt.Fprintln(w, "LIMIT\tOF\tRULE\tSUBJECT")
			for _, name := range slices.Sorted(maps.Keys(cfg.Limits)) {
				fmt.Fprintf(w, "%s\t%s\t-\t-\n", name, cfg.Limits[name])
			}
			for _, r := range rules {
				for _, l := range r.Limits {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", cmp.Or(l.Name, "-"), l.Limit, r.Name, r.Subject)
				}
			}
			_ = w.Flush() // a.stdout has noted what could not be written
			return nil
		},
	}
}
