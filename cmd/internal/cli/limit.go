package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/cmd/internal/child"
	"github.com/coordgo/coord/config"
)

const limitLong = `Takes permits of the limit NAME: exits with 0 when they are granted and with 75 when
not, and tells on standard error when to try again. With CMD it becomes CMD when
they are granted.

The limit is --rate, such as 2000/1m, or that of this name in the file that --config
names. It counts by sliding window: at most so many in any period of that length.
With --burst it is a token bucket; --algorithm chooses by name. All who use one name
on one store share its permits, and give the same limit.

To see, reset, charge or override a limit, or those of a rule for one subject, use the
commands below. A limit cannot have the name of one of them.`

const limitExample = `  # at most 2000 calls in any minute, over all machines that share the store
  coord limit supplier --rate 2000/1m -- curl -fsS https://api.example.com/

  # wait up to ten seconds for five permits of a bucket of 20
  coord limit mail --rate 100/1h --burst 20 -n 5 --wait 10s && ./send.sh

  # the limit "supplier" of a file; is there a permit?
  coord --config coord.yaml limit supplier -n 0 --json`

// limitFlags are the flags of coord limit.
type limitFlags struct {
	rate, algorithm string
	burst, n        int
	wait            time.Duration
	json            bool
}

func (a *App) limit(stop func()) *cobra.Command {
	var f limitFlags
	cmd := &cobra.Command{
		Use:               "limit NAME --rate RATE/PERIOD [flags] [-- CMD [ARG]...]",
		Short:             "Take permits of a rate limit, and run a command if they are granted",
		Long:              limitLong,
		Example:           limitExample,
		ValidArgsFunction: a.afterName(a.limitNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, command, err := nameAndCommand(cmd, args)
			if err != nil {
				return err
			}
			if f.json && command != nil {
				return Usage("--json with a command: both would write to standard output")
			}
			cfg, err := a.store.loadShared(cmd.Context())
			if err != nil {
				return err
			}
			limit, err := f.limit(cmd, cfg, name)
			if err != nil {
				return err
			}
			return a.runLimit(cmd.Context(), stop, cfg, name, limit, command, f)
		},
	}
	f.defineRate(cmd)
	flags := cmd.Flags()
	flags.IntVarP(&f.n, "permits", "n", 1, "how many permits, all or none; 0 only asks whether there is one")
	flags.DurationVar(&f.wait, "wait", 0, "wait for the permits at most this long")
	flags.BoolVar(&f.json, "json", false, "print the answer as JSON")
	NoFiles(cmd, "permits")
	NoFiles(cmd, "wait")
	cmd.AddCommand(a.limitList(), a.limitPeek(), a.limitReset(), a.limitCharge(), a.limitOverride(), a.limitOverrides())
	return cmd
}

// defineRate makes the flags that say what the limit is.
func (f *limitFlags) defineRate(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.rate, "rate", "", "permits per period, such as 2000/1m (default: the limit of this name in --config)")
	flags.IntVar(&f.burst, "burst", 0, "capacity of a token bucket")
	flags.StringVar(&f.algorithm, "algorithm", "", "sliding-window (default), token-bucket or fixed-window")
	NoFiles(cmd, "rate")
	NoFiles(cmd, "burst")
	err := cmd.RegisterFlagCompletionFunc("algorithm", cobra.FixedCompletions(
		[]string{"sliding-window", "token-bucket", "fixed-window"}, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag does not exist: a mistake in this package
	}
}

// limit is the limit that the flags or the file give.
func (f *limitFlags) limit(cmd *cobra.Command, cfg *config.Config, name string) (coord.Limit, error) {
	given := cmd.Flags().Changed
	switch {
	case given("wait") && f.wait <= 0:
		return coord.Limit{}, Usage("--wait %v: want above 0", f.wait)
	case given("wait") && f.n == 0:
		return coord.Limit{}, Usage("--wait with -n 0: there is nothing to wait for")
	case given("burst") && f.burst < 1:
		return coord.Limit{}, Usage("--burst %d: want 1 or more", f.burst)
	case !given("rate") && (given("burst") || given("algorithm")):
		return coord.Limit{}, Usage("--burst and --algorithm want --rate beside them")
	case !given("rate"):
		l, err := cfg.Limit(name)
		if len(cfg.Limits) == 0 {
			return l, Usage("no --rate: want one, such as --rate 2000/1m, or a --config file with the limit %q", name)
		}
		if err != nil {
			return l, Usage("no --rate, and %w", err)
		}
		return l, nil
	}
	text := f.rate
	if given("burst") {
		text += fmt.Sprintf(" burst=%d", f.burst)
	}
	if given("algorithm") {
		text += " " + f.algorithm
	}
	return coord.ParseLimit(text)
}

// answer is what --json prints.
type answer struct {
	Name         string `json:"name"`
	Limit        string `json:"limit"`
	Allowed      bool   `json:"allowed"`
	Granted      int    `json:"granted"`
	Remaining    *int   `json:"remaining,omitempty"` // unknown after a wait
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
	ResetAfterMS int64  `json:"reset_after_ms,omitempty"`
	Degraded     string `json:"degraded,omitempty"`
}

func (a *App) runLimit(ctx context.Context, stop func(), cfg *config.Config, name string, limit coord.Limit, command []string, f limitFlags) error {
	var cmd child.Command
	if command != nil {
		var err error
		if cmd, err = child.Find(command); err != nil {
			return err
		}
	}
	got, err := take(ctx, cfg, name, limit, f)
	if err != nil {
		return Cause(ctx, err)
	}
	if got.Degraded != "" {
		fmt.Fprintf(a.stderr, "coord: admitted by failure_policy open: %s\n", got.Degraded)
	}
	if f.json {
		if err := writeJSON(a.stdout, got); err != nil {
			return err
		}
	}
	switch {
	case !got.Allowed:
		return Exit(ExitRefused, "%q is limited to %s: retry after %v", name, limit, time.Duration(got.RetryAfterMS)*time.Millisecond)
	case command == nil:
		return nil
	}
	stop()
	if ctx.Err() != nil {
		return Cause(ctx, ctx.Err())
	}
	a.stderr.flush()
	code, err := a.Runner.Become(cmd, a.signals)
	if err == nil && code != 0 {
		return Exit(code, "")
	}
	return err
}

// take asks the store, and closes it before a command is run.
func take(ctx context.Context, cfg *config.Config, name string, limit coord.Limit, f limitFlags) (got answer, err error) {
	got = answer{Name: name, Limit: limit.String()}
	client, err := OpenConfig(ctx, cfg)
	if err != nil {
		if cfg.FailurePolicy == coord.FailOpen && errors.Is(err, coord.ErrUnavailable) && ctx.Err() == nil {
			got.Allowed, got.Granted, got.Degraded = true, f.n, OneLine(err)
			return got, nil
		}
		return got, err
	}
	defer closeInto(client, &err)
	overridesOf(ctx, cfg, client.Client)
	if f.wait > 0 {
		return got, got.await(ctx, client, limit, f)
	}
	r, err := client.AllowN(ctx, name, limit, f.n)
	if err != nil {
		return got, err
	}
	got.Allowed, got.Granted, got.Remaining = r.Allowed, r.Granted, &r.Remaining
	got.RetryAfterMS, got.ResetAfterMS = ceilMS(r.RetryAfter), ceilMS(r.ResetAfter)
	if r.Degraded != nil {
		got.Degraded = OneLine(r.Degraded)
	}
	return got, nil
}

// await waits for the permits. That they did not come is an answer, no error.
func (got *answer) await(ctx context.Context, client *config.Client, limit coord.Limit, f limitFlags) error {
	waiting, cancel := context.WithTimeout(ctx, f.wait)
	defer cancel()
	err := client.WaitN(waiting, got.Name, limit, f.n)
	var failed *coord.Error
	switch {
	case err == nil:
		got.Allowed, got.Granted = true, f.n
	case ctx.Err() == nil && errors.Is(err, coord.ErrLimited) && errors.As(err, &failed):
		got.RetryAfterMS = ceilMS(failed.RetryAfter)
	default:
		return err
	}
	return nil
}

// ceilMS is d in milliseconds, so that nobody comes back too early.
func ceilMS(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// writeJSON prints v for programs.
func writeJSON(w io.Writer, v any) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(printableJSON(text.Bytes()))
	return err
}

// writeJSONLine prints v for programs that read line by line.
func writeJSONLine(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(printableJSON(text), '\n'))
	return err
}

// printableJSON escapes what is not ASCII and not printable: encoding/json leaves it as it is, and a
// terminal may obey it.
func printableJSON(text []byte) []byte {
	safe := make([]byte, 0, len(text))
	for _, c := range string(text) {
		if c < 0x7f || unicode.IsPrint(c) {
			safe = utf8.AppendRune(safe, c)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, c) {
			safe = fmt.Appendf(safe, `\u%04x`, unit)
		}
	}
	return safe
}

// list joins names for people.
func list[T ~string](names []T) string {
	texts := make([]string, len(names))
	for i, n := range names {
		texts[i] = string(n)
	}
	return strings.Join(texts, ", ")
}
