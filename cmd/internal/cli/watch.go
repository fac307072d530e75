package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/cmd/internal/child"
	"github.com/coordgo/coord/config"
)

const watchLong = `Shows who holds the locks NAME, how many wait where the store knows, and their tokens,
and what is left of limits, until it is interrupted, which is how it ends: with 0.
Without NAME and --limit it shows every name that is held, or those that begin with
--prefix, on stores that can list: all but memcached.

On a terminal it is a table that is kept up to date, in colour unless NO_COLOR is set. It
fits the width of the terminal: where that is narrow, it leaves tokens out and cuts names.
Elsewhere, and with --json, it is one
line for each lock and limit at first, and then one for each that has changed: another
holder, another number of waiters, another number of permits. It asks the store once in
every --interval, and takes nothing; what comes and goes in between it does not see.
While the store is away it says so, and goes on.

A limit is KEY=RATE, as coord limit --rate has it, or KEY alone for the limit of this name
in the file that --config names.`

const watchExample = `  coord watch
  coord watch backup invoices
  coord watch --limit supplier=2000/1m --limit "mail=100/1h burst=20"
  coord watch backup --json | jq -r .holder.name`

// Bounds of --interval: one that hammers the store is a mistake.
const (
	minInterval = 50 * time.Millisecond
	maxInterval = time.Hour
	// lookTime bounds one look at everything.
	lookTime = 5 * time.Second
)

func (a *App) watch() *cobra.Command {
	w := watcher{App: a}
	var limits []string
	cmd := &cobra.Command{
		Use:               "watch [NAME | --prefix PREFIX]... [--limit KEY=RATE]...",
		Short:             "Show locks and limits as they change",
		Long:              watchLong,
		Example:           watchExample,
		ValidArgsFunction: a.completesHeld(0),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			cfg, err := a.store.loadShared(cmd.Context())
			if err != nil {
				return err
			}
			w.all = cmd.Flags().Changed("prefix") || len(args)+len(limits) == 0
			if err := w.choose(cfg, args, limits); err != nil {
				return Usage("%w: see %s --help", err, cmd.CommandPath())
			}
			client, err := OpenConfig(cmd.Context(), cfg)
			if err != nil {
				return Cause(cmd.Context(), err)
			}
			defer closeInto(client, &err)
			w.client = client.Client
			return w.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&limits, "limit", nil, "a limit, such as supplier=2000/1m; may be given several times")
	flags.StringVar(&w.prefix, "prefix", "", "show all that is held and begins so")
	flags.DurationVar(&w.interval, "interval", time.Second, "how often to look")
	flags.BoolVar(&w.asJSON, "json", false, "print lines of JSON")
	NoFiles(cmd, "limit")
	NoFiles(cmd, "prefix")
	NoFiles(cmd, "interval")
	return cmd
}

// watcher is one run of coord watch.
type watcher struct {
	*App
	client   *coord.Client
	locks    []string
	all      bool // what is held and begins with prefix, instead of locks
	prefix   string
	held     []string // of all: at the last look
	limits   []watchedLimit
	interval time.Duration
	asJSON   bool
}

type watchedLimit struct {
	key   string
	limit coord.Limit
}

// sight is what was seen of one lock or limit: one of the three, and when.
type sight struct {
	time time.Time
	kind string // "lock" or "limit"
	*lockStatus
	*limitStatus
	failed *failedSight

	// mark differs from that of an earlier sight if something changed.
	mark string
}

type limitStatus struct {
	Name         string `json:"name"`
	Limit        string `json:"limit"`
	Remaining    int    `json:"remaining"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
	ResetAfterMS int64  `json:"reset_after_ms,omitempty"`
}

// failedSight is what could not be seen, and why.
type failedSight struct{ name, text string }

// choose takes what the command was given.
func (w *watcher) choose(cfg *config.Config, locks, limits []string) error {
	if w.all && len(locks) > 0 {
		return errors.New("NAME and --prefix: want one of them")
	}
	if w.interval < minInterval || w.interval > maxInterval {
		return fmt.Errorf("--interval %v: want %v to %v", w.interval, minInterval, maxInterval)
	}
	w.locks = locks
	for _, text := range limits {
		key, rate, given := strings.Cut(text, "=")
		l := watchedLimit{key: key}
		var err error
		if given {
			l.limit, err = coord.ParseLimit(rate)
		} else {
			l.limit, err = cfg.Limit(key)
		}
		if err != nil {
			return fmt.Errorf("--limit %q: %w", text, err)
		}
		w.limits = append(w.limits, l)
	}
	return nil
}

// run looks again and again until ctx ends.
func (w *watcher) run(ctx context.Context) error {
	show := w.showNews()
	if !w.asJSON && w.OnTerminal() {
		s := w.newScreen()
		defer s.close()
		show = s.show
	}
	tick := time.NewTicker(w.interval)
	defer tick.Stop()
	for first := true; ; first = false {
		sights, err := w.look(ctx, first)
		if ctx.Err() != nil {
			return ended(ctx)
		}
		if err != nil {
			return err
		}
		if err := show(sights); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ended(ctx)
		}
	}
}

// ended is the end by a signal. INT and TERM are how a watch ends.
func ended(ctx context.Context) error {
	var interrupted child.Interrupted
	if errors.As(context.Cause(ctx), &interrupted) && (interrupted.Signal == os.Interrupt || interrupted.Signal == syscall.SIGTERM) {
		return nil
	}
	return context.Cause(ctx)
}

// look asks for everything once. A mistake, which would be there the next time too, ends the
// watch at its first look.
func (w *watcher) look(ctx context.Context, first bool) ([]sight, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	var sights []sight
	add := func(kind, name string, s sight, err error) error {
		s.time, s.kind = time.Now(), kind
		if err != nil {
			if first && !errors.Is(err, coord.ErrUnavailable) {
				return err
			}
			s = sight{time: s.time, kind: kind, failed: &failedSight{name, OneLine(err)}, mark: "failed"}
		}
		sights = append(sights, s)
		return nil
	}
	if w.all {
		if err := w.list(ctx); err != nil {
			if err := add("lock", w.prefix+"…", sight{}, err); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range w.locks {
		s, err := statusOf(ctx, w.client, name)
		if err := add("lock", name, lockSight(s), err); err != nil {
			return nil, err
		}
	}
	for _, l := range w.limits {
		r, err := w.client.Peek(ctx, l.key, l.limit)
		if err == nil {
			err = r.Degraded // the failure policy has answered, not the store
		}
		if err := add("limit", l.key, limitSight(l, r), err); err != nil {
			return nil, err
		}
	}
	return sights, nil
}

// list makes all that is held the locks to look at, with what was held at the last look, which shows that it is free.
func (w *watcher) list(ctx context.Context) error {
	names := map[string]bool{}
	for _, name := range w.held {
		names[name] = true
	}
	w.held = nil
	for name, err := range namesHeld(ctx, w.client, w.prefix) {
		if err != nil {
			w.locks = nil
			return err
		}
		names[name] = true
		w.held = append(w.held, name)
	}
	w.locks = slices.Sorted(maps.Keys(names))
	return nil
}

func lockSight(s lockStatus) sight {
	mark := s.State
	if s.Holder != nil {
		mark += " " + s.Holder.ID
	}
	if s.Waiters != nil {
		mark += " " + strconv.Itoa(*s.Waiters)
	}
	for i := range s.Members {
		mark += " " + s.Members[i].ID + s.Members[i].kind()
	}
	return sight{lockStatus: &s, mark: mark}
}

func newLimitStatus(name string, limit coord.Limit, r coord.Result) limitStatus {
	s := limitStatus{Name: name, Limit: limit.String(), Remaining: r.Remaining, ResetAfterMS: ceilMS(r.ResetAfter)}
	if r.Remaining == 0 {
		s.RetryAfterMS = ceilMS(r.RetryAfter)
	}
	return s
}

func limitSight(l watchedLimit, r coord.Result) sight {
	s := newLimitStatus(l.key, l.limit, r)
	return sight{limitStatus: &s, mark: strconv.Itoa(r.Remaining)}
}

// MarshalJSON writes the fields of a lock or a limit beside the time.
func (s sight) MarshalJSON() ([]byte, error) {
	head := struct {
		Time  time.Time `json:"time"`
		Kind  string    `json:"kind"`
		Name  string    `json:"name,omitempty"`
		Error string    `json:"error,omitempty"`
	}{Time: s.time, Kind: s.kind}
	switch {
	case s.failed != nil:
		head.Name, head.Error = s.failed.name, s.failed.text
		return json.Marshal(head)
	case s.lockStatus != nil:
		return joinObjects(head, s.lockStatus)
	}
	return joinObjects(head, s.limitStatus)
}

// joinObjects is one JSON object with the fields of both.
func joinObjects(a, b any) ([]byte, error) {
	x, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	y, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	return append(append(x[:len(x)-1], ','), y[1:]...), nil
}

// cells are the columns of a table: name, state, who, token, the rest.
func (s sight) cells() [5]string {
	switch {
	case s.failed != nil:
		return [5]string{printable(s.failed.name), "unknown", s.failed.text}
	case s.limitStatus != nil:
		l := s.limitStatus
		c := [5]string{printable(l.Name), strconv.Itoa(l.Remaining) + " left", "of " + l.Limit}
		if l.RetryAfterMS > 0 {
			c[4] = "next in " + round(time.Duration(l.RetryAfterMS)*time.Millisecond).String()
		}
		return c
	}
	l := s.lockStatus
	c := [5]string{printable(l.Name), l.State}
	if l.State == stateHeld {
		c[1] = kindOf(l.holder, l.State)
	}
	switch l.State {
	case stateFree:
		return c
	case stateShared:
		c[2] = l.sharedBy()
		return c
	}
	c[2], c[3] = who(l.holder), strconv.FormatInt(int64(l.holder.Token), 10)
	c[4] = "lease " + round(l.holder.TTL).String()
	if l.Waiters != nil {
		c[4] += ", " + strconv.Itoa(*l.Waiters) + " waiting"
	}
	return c
}

// sharedBy names the first who shares the name, and counts the others.
func (s *lockStatus) sharedBy() string {
	text := who(s.Members[0].holder) + ": " + s.Members[0].kind()
	if more := len(s.Members) - 1; more > 0 {
		text += fmt.Sprintf("; %d more", more)
	}
	return text
}

// showNews prints a line for each sight that differs from the last.
func (w *watcher) showNews() func([]sight) error {
	var before map[string]string // the mark of each
	return func(sights []sight) error {
		now := map[string]string{}
		for _, s := range sights {
			name := s.kind + " " + s.name()
			now[name] = s.mark
			if mark, seen := before[name]; seen && mark == s.mark {
				continue
			}
			if err := w.showLine(s); err != nil {
				return err
			}
		}
		before = now
		return nil
	}
}

// name is that of the lock, or the key and the rate of the limit.
func (s sight) name() string {
	switch {
	case s.failed != nil:
		return s.failed.name
	case s.limitStatus != nil:
		return s.limitStatus.Name + " " + s.Limit
	}
	return s.lockStatus.Name
}

func (w *watcher) showLine(s sight) error {
	if w.asJSON {
		return writeJSONLine(w.stdout, s)
	}
	_, err := io.WriteString(w.stdout, strings.Join([]string{s.time.Format(time.TimeOnly), s.kind, s.line()}, "  ")+"\n")
	return err
}

// line is the columns on one line, without those that are empty.
func (s sight) line() string {
	cells := s.cells()
	return strings.Join(slices.DeleteFunc(cells[:], func(c string) bool { return c == "" }), "  ")
}
