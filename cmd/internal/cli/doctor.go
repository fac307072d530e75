package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/doctor"
)

const doctorLong = `Connects to a store, tries a lock and a limit, and checks the settings that
docs/operations.md asks for. It leaves nothing behind that lasts.

Each check is a line that begins with
  ok    as it should be
  skip  not checked, because the store does not tell
  warn  works until something fails
  fail  does not work, or loses locks in normal operation
and ends with what to do. The exit status is 1 if a check failed, and with --strict
also if one warns.

The clock is read from the fencing token of a fresh lock, on stores that seed their
tokens from a clock of their own.`

// checkup is what --json prints. Times are medians, in microseconds.
type checkup struct {
	URL    string        `json:"url"`
	Store  string        `json:"store"`
	Server string        `json:"server,omitempty"`
	Claims driver.Claims `json:"claims"`
	// Settings are what the store tells of its topology and settings.
	Settings map[string]string `json:"settings,omitempty"`
	OpenUS   int64             `json:"open_us"`
	PingUS   *int64            `json:"ping_us"`
	LockUS   *int64            `json:"lock_us"`
	LimitUS  *int64            `json:"limit_us"`
	ClockUS  *int64            `json:"clock_us"` // store minus this machine
	ErrorUS  *int64            `json:"clock_error_us"`
	// Checks are what was compared with docs/operations.md.
	Checks []driver.Finding `json:"checks"`
}

func (a *App) doctor() *cobra.Command {
	var asJSON, strict bool
	cmd := &cobra.Command{
		Use:   "doctor [URL]",
		Short: "Try a store and check its settings",
		Long:  doctorLong,
		Example: `  coord doctor redis://127.0.0.1:6379
  coord doctor --strict etcd://etcd-1:2379,etcd-2:2379,etcd-3:2379
  COORD_URL=rediss://:secret@redis.internal coord doctor --json | jq .checks`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			flags, err := a.store.withArg(args)
			if err != nil {
				return err
			}
			cfg, err := flags.load(cmd.Context())
			if err != nil {
				return err
			}
			if a.Silence != nil {
				a.Silence() // what a store warns of when it is opened is among the findings
			}
			c, err := examine(cmd.Context(), cfg)
			if err != nil {
				return Cause(cmd.Context(), err)
			}
			if asJSON {
				if err := writeJSON(a.stdout, c); err != nil {
					return err
				}
			} else {
				a.printPairs(c.lines())
				a.Printf("\n%s", findingLines(c.Checks))
			}
			return verdict(c.Checks, strict)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the answer as JSON")
	cmd.Flags().BoolVar(&strict, "strict", false, "exit with 1 also if a check warns")
	return cmd
}

const (
	doctorTime  = 30 * time.Second // for the whole examination
	doctorLease = 5 * time.Second  // what is left behind if it is interrupted
	samples     = 21
	// Each reading of the clock leaves the token of one key with the store, which
	// forgets it in time.
	clockSamples = 7
)

// shown is the store, or both, for people.
func shown(cfg *config.Config) string {
	var urls []string
	for _, u := range cfg.Stores() {
		urls = append(urls, u.String())
	}
	return strings.Join(urls, " and ")
}

// examine opens the store and tries what it does.
func examine(ctx context.Context, cfg *config.Config) (c checkup, err error) {
	ctx, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	began := time.Now()
	client, err := OpenConfig(ctx, cfg, coord.WithFailurePolicy(coord.FailClosed))
	if err != nil {
		return c, err
	}
	defer closeInto(client, &err)
	info := client.Info()
	c = checkup{URL: shown(cfg), Store: info.Name, Server: info.Server, Claims: info.Claims, OpenUS: time.Since(began).Microseconds()}
	if c.Settings, err = client.Describe(ctx); err != nil {
		return c, err
	}
	if c.Checks, err = client.Check(ctx); err != nil {
		return c, err
	}
	var r doctor.Report
	c.tryOut(ctx, client.Client, &r)
	c.Checks = append(c.Checks, r.Findings...)
	return c, Cause(ctx, ctx.Err())
}

// tryOut measures a round trip, a lock, a limit and the clock. What fails is a finding.
func (c *checkup) tryOut(ctx context.Context, client *coord.Client, r *doctor.Report) {
	key := "coord-doctor/" + rand.Text()
	for _, p := range []struct {
		name string
		to   **int64
		run  func() error
	}{
		{"ping", &c.PingUS, func() error { return client.Ping(ctx) }},
		{"lock", &c.LockUS, func() error { return tryLock(ctx, client, key) }},
		{"limit", &c.LimitUS, func() error { return tryLimit(ctx, client, key) }},
	} {
		var err error
		*p.to, err = median(p.run)
		checkTried(r, p.name, err)
		r.Check(p.name, doctor.OK(*p.to != nil, "works"))
	}
	if c.LimitUS != nil {
		if err := client.Reset(ctx, key, probeLimit); !errors.Is(err, coord.ErrUnsupported) {
			checkTried(r, "reset", err)
		}
	}
	info := client.Info()
	if c.LockUS != nil && info.Claims.Has(driver.TokenClockSeeded) && info.Claims.Has(driver.ServerClock) {
		checkTried(r, "clock", c.readClock(ctx, client))
	}
	c.checkClock(r)
}

// checkTried is about something that was tried out, and has failed if there is an error.
func checkTried(r *doctor.Report, name string, err error) {
	if err != nil {
		r.Check(name, doctor.Fail(true, OneLine(err), "see what the error says, and the permissions and the roles of servers in docs/operations.md"))
	}
}

// maxApart is how far clocks that are kept by NTP may be from each other.
const maxApart = time.Second

// checkClock judges what readClock has found.
func (c *checkup) checkClock(r *doctor.Report) {
	if c.ClockUS == nil {
		r.Check("clock",
			doctor.Skip(c.Claims.Has(driver.ScopeHosts), "the store does not tell its clock; keep all machines on NTP"),
			doctor.OK(true, "that of this machine"))
		return
	}
	apart, within := micros(*c.ClockUS), micros(*c.ErrorUS)
	text := fmt.Sprintf("%s ahead of this machine's", round(apart))
	switch {
	case apart.Abs() <= within:
		text = "as on this machine"
	case apart < 0:
		text = fmt.Sprintf("%s behind this machine's", round(-apart))
	}
	text += fmt.Sprintf(", give or take %s", round(within))
	r.Check("clock",
		doctor.Warn(apart.Abs()-within > maxApart, text, "keep both machines on NTP: tokens go back if the server's clock does, over a restart"),
		doctor.OK(true, text))
}

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// findingLines shows each finding on a line.
func findingLines(findings []driver.Finding) string {
	lines := make([][2]string, len(findings))
	for i, f := range findings {
		text := f.Text
		if f.Remedy != "" {
			text += ": " + f.Remedy
		}
		lines[i] = [2]string{fmt.Sprintf("%-4s  %s", f.Level, printable(f.Name)), text}
	}
	return pairs(lines)
}

// verdict is the exit status by the worst finding.
func verdict(findings []driver.Finding, strict bool) error {
	count := map[driver.Level]int{}
	for _, f := range findings {
		count[f.Level]++
	}
	switch {
	case count[driver.LevelFail] > 0:
		return Exit(ExitViolation, "%d of %d checks failed", count[driver.LevelFail], len(findings))
	case strict && count[driver.LevelWarn] > 0:
		return Exit(ExitViolation, "%d of %d checks warn", count[driver.LevelWarn], len(findings))
	}
	return nil
}

// median times run. It is nil for what the store does not support.
func median(run func() error) (*int64, error) {
	times := make([]int64, samples)
	for i := range times {
		began := time.Now()
		err := run()
		if errors.Is(err, coord.ErrUnsupported) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		times[i] = time.Since(began).Microseconds()
	}
	slices.Sort(times)
	return &times[samples/2], nil
}

func tryLock(ctx context.Context, client *coord.Client, key string) error {
	lock, err := client.TryLock(ctx, key, coord.TTL(doctorLease))
	if err != nil {
		return err
	}
	return lock.Unlock(ctx)
}

// probeLimit has more permits than the doctor takes.
var probeLimit = coord.Per(10*samples, time.Second)

func tryLimit(ctx context.Context, client *coord.Client, key string) error {
	r, err := client.Allow(ctx, key, probeLimit)
	if err == nil && !r.Allowed {
		err = fmt.Errorf("a permit of %v was denied although only %d were taken", probeLimit, samples)
	}
	return err
}

// handOverBits is how far a token is above the store's value.
const handOverBits = 10

// readClock reads the store's clock, in microseconds since 1970, from the token
// of a key that was never locked. The store's moment lies between asking and
// answer; of several tries the quickest tells most.
func (c *checkup) readClock(ctx context.Context, client *coord.Client) error {
	for range clockSamples {
		began := time.Now()
		lock, err := client.TryLock(ctx, "coord-doctor/"+rand.Text(), coord.TTL(doctorLease))
		took := time.Since(began)
		if err != nil {
			return err
		}
		if err := lock.Unlock(ctx); err != nil {
			return err
		}
		store := time.UnixMicro(int64(lock.Token()) >> handOverBits)
		apart := store.Sub(began.Add(took / 2))
		if apart.Abs() > 366*24*time.Hour {
			return nil // it counts something else: not measurable
		}
		if within := (took / 2).Microseconds(); c.ErrorUS == nil || within < *c.ErrorUS {
			us := apart.Microseconds()
			c.ClockUS, c.ErrorUS = &us, &within
		}
	}
	return nil
}

func (c *checkup) lines() [][2]string {
	measured := func(us *int64) string {
		if us == nil {
			return "not measured"
		}
		return round(micros(*us)).String()
	}
	lines := [][2]string{
		{"url", c.URL},
		{"store", c.Store},
		{"server", cmp.Or(c.Server, "not known")},
		{"claims", list(c.Claims)},
	}
	for _, name := range slices.Sorted(maps.Keys(c.Settings)) {
		lines = append(lines, [2]string{name, c.Settings[name]})
	}
	return append(lines, [][2]string{
		{"connect", measured(&c.OpenUS)},
		{"round trip", measured(c.PingUS)},
		{"lock+unlock", measured(c.LockUS)},
		{"limit", measured(c.LimitUS)},
	}...)
}
