package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/coordgo/coord"
)

const statusLong = `Shows who holds NAME: as a lock, a leader, a read/write lock, or a semaphore. It exits with
0 if somebody does and with 3 if it is free, so that scripts can ask.

Without NAME it shows every hold, a line for each: of locks, leaders, read/write locks
and semaphores, all or those whose names begin with --prefix. It exits with 3 if there is
none. With --json each name is a line of JSON. That is for people: it asks the store for
each name, and Redis looks at all keys of its database. Holds that come or go meanwhile
may be missing. Memcached cannot list: give a NAME.

"asked" is when the holder began to ask for the lock; it may have waited for it.
A lock that nobody holds any more may be kept taken for a while, by --min-hold or
by coord break.`

func (a *App) status() *cobra.Command {
	var asJSON bool
	var prefix string
	cmd := &cobra.Command{
		Use:        "status [NAME | --prefix PREFIX]",
		SuggestFor: []string{"list", "ls", "show"},
		Short:      "Show who holds a lock, or all holds",
		Long:       statusLong,
		Example: `  coord status backup
  coord status backup --json | jq -r .holder.name
  coord status --prefix orders/`,
		ValidArgsFunction: a.completesHeld(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if len(args) > 1 || len(args) == 1 && cmd.Flags().Changed("prefix") {
				return Usage("want one NAME, or --prefix, or neither: see %s --help", cmd.CommandPath())
			}
			ctx := cmd.Context()
			client, err := a.open(ctx)
			if err != nil {
				return Cause(ctx, err)
			}
			defer closeInto(client, &err)
			if len(args) == 0 {
				return Cause(ctx, a.statusOfAll(ctx, client.Client, prefix, asJSON))
			}
			s, err := statusOf(ctx, client.Client, args[0])
			if err != nil {
				return Cause(ctx, err)
			}
			return a.printStatus(s, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the answer as JSON")
	cmd.Flags().StringVar(&prefix, "prefix", "", "show the holds whose names begin so")
	NoFiles(cmd, "prefix")
	return cmd
}

// statusOfAll shows each name that is held when it is asked for.
func (a *App) statusOfAll(ctx context.Context, client *coord.Client, prefix string, asJSON bool) error {
	taken := false
	list := tabwriter.NewWriter(a.stdout, 0, 0, columnGap, ' ', 0)
	defer list.Flush() // what cannot be written a.stdout has noted
	for name, err := range namesHeld(ctx, client, prefix) {
		if err != nil {
			return err
		}
		s, err := statusOf(ctx, client, name)
		if err != nil {
			return err
		}
		if s.State == stateFree { // since it was listed
			continue
		}
		if !taken && !asJSON {
			fmt.Fprintln(list, "NAME\tKIND\tHOLDER\tLEASE LEFT\tWAITING\tTOKEN\tID")
		}
		taken = true
		if asJSON {
			if err := writeJSONLine(a.stdout, s); err != nil {
				return err
			}
			continue
		}
		for _, row := range s.rows() {
			fmt.Fprintln(list, strings.Join(row, "\t"))
		}
	}
	switch {
	case taken:
		return nil
	case asJSON:
		return Exit(ExitFree, "")
	case prefix != "":
		return Exit(ExitFree, "nothing is held whose name begins with %q", prefix)
	}
	return Exit(ExitFree, "nothing is held")
}

// namesHeld gives each name that is held in some way, once.
func namesHeld(ctx context.Context, client *coord.Client, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		seen := map[string]bool{}
		for name, err := range client.List(ctx, prefix) {
			if errors.Is(err, coord.ErrUnsupported) {
				err = Usage("the store %s cannot list what is held: give a NAME", client.Info().Name)
			}
			if err == nil && seen[name] {
				continue
			}
			seen[name] = true
			if !yield(name, err) || err != nil {
				return
			}
		}
	}
}

// rows are the cells of a line for each hold.
func (s *lockStatus) rows() (rows [][]string) {
	name := printable(s.Name)
	if s.Holder != nil {
		kind, waiting := kindOf(s.holder, "lock"), ""
		if s.State == stateKept {
			kind += ", kept taken"
		}
		if s.Waiters != nil {
			waiting = strconv.Itoa(*s.Waiters)
		}
		rows = append(rows, []string{name, kind, who(s.holder), round(s.holder.TTL).String(), waiting, fmt.Sprint(s.holder.Token), printable(s.holder.ID)})
	}
	for i := range s.Members {
		m := &s.Members[i]
		rows = append(rows, []string{name, m.kind(), who(m.holder), round(m.holder.TTL).String(), "", fmt.Sprint(m.Token), printable(m.ID)})
	}
	return rows
}

// The states of a lock.
const (
	stateHeld   = "held"
	stateShared = "shared" // it is no lock, but several may hold the name
	stateKept   = "kept"   // nobody holds it, and nobody can have it yet
	stateFree   = "free"
)

// lockStatus is what --json prints.
type lockStatus struct {
	Name    string         `json:"name"`
	State   string         `json:"state"`
	Holder  *holderStatus  `json:"holder,omitempty"`
	LeftMS  int64          `json:"left_ms,omitempty"`
	Waiters *int           `json:"waiters,omitempty"` // where the store knows
	Members []memberStatus `json:"members,omitempty"` // who shares the name

	holder coord.Holder
}

type holderStatus struct {
	ID    string      `json:"id"`
	Name  string      `json:"name,omitempty"`
	PID   int         `json:"pid,omitempty"`
	Asked *time.Time  `json:"asked,omitempty"`
	Token coord.Token `json:"token"`

	Leader bool `json:"leader,omitempty"`
}

// kindOf says that a holder leads, or else how it holds.
func kindOf(h coord.Holder, held string) string {
	if h.Leader {
		return "leader"
	}
	return held
}

// statusOf asks for all kinds of the name.
func statusOf(ctx context.Context, client *coord.Client, name string) (lockStatus, error) {
	s, err := inspect(ctx, client, name)
	if err != nil {
		return s, err
	}
	if s.Members, err = membersOf(ctx, client, name); err == nil && s.State == stateFree && len(s.Members) > 0 {
		s.State = stateShared
	}
	return s, err
}

// inspect asks the store. A free lock is an answer, no error.
func inspect(ctx context.Context, client *coord.Client, name string) (lockStatus, error) {
	s := lockStatus{Name: name, State: stateFree}
	h, err := client.Inspect(ctx, name)
	switch {
	case errors.Is(err, coord.ErrNotHeld):
		return s, nil
	case err != nil:
		return s, err
	}
	s.holder, s.State, s.LeftMS = h, stateHeld, ceilMS(h.TTL)
	if h.Released {
		s.State = stateKept
	}
	if h.Waiters >= 0 {
		s.Waiters = &h.Waiters
	}
	s.Holder = statusOfHolder(h)
	return s, nil
}

func statusOfHolder(h coord.Holder) *holderStatus {
	s := &holderStatus{ID: h.ID, Name: h.Name, PID: h.PID, Token: h.Token, Leader: h.Leader}
	if !h.Since.IsZero() {
		s.Asked = &h.Since
	}
	return s
}

func (a *App) printStatus(s lockStatus, asJSON bool) error {
	if asJSON {
		if err := writeJSON(a.stdout, s); err != nil {
			return err
		}
	} else {
		a.printStatusText(s)
	}
	if s.State == stateFree {
		return Exit(ExitFree, "")
	}
	return nil
}

func (a *App) printStatusText(s lockStatus) {
	h := s.holder
	lines := [][2]string{{"lock", s.Name}, {"state", s.State}}
	add := func(name, value string) { lines = append(lines, [2]string{name, value}) }
	switch s.State {
	case stateHeld:
		add(kindOf(h, "holder"), who(h))
	case stateKept:
		lines[1][1] = "kept taken: nobody holds it any more"
		add("last "+kindOf(h, "holder"), who(h))
	}
	if s.State == stateHeld || s.State == stateKept {
		if !h.Since.IsZero() {
			add("asked", fmt.Sprintf("%s, %v ago", h.Since.Local().Format(dateTime), time.Since(h.Since).Round(time.Second)))
		}
		add("token", strconv.FormatInt(int64(h.Token), 10))
		add("lease left", round(h.TTL).String())
		if s.Waiters != nil {
			add("waiters", strconv.Itoa(*s.Waiters))
		}
		add("id", h.ID)
	}
	a.printPairs(lines)
	if len(s.Members) > 0 {
		a.Printf("\n%s", membersTable(s.Members))
	}
}

// dateTime names its zone: who looks may be elsewhere than the holder.
const dateTime = time.DateTime + " MST"

// membersTable has a line for each who shares a name.
func membersTable(members []memberStatus) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, columnGap, ' ', 0)
	fmt.Fprintln(w, "KIND\tSLOT\tHOLDER\tASKED\tLEASE LEFT\tTOKEN\tID")
	for i := range members {
		m := &members[i]
		asked := ""
		if m.Asked != nil {
			asked = m.Asked.Local().Format(dateTime)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%v\t%d\t%s\n", m.kind(), m.Slot, who(m.holder), asked, round(m.holder.TTL), m.Token, printable(m.ID))
	}
	_ = w.Flush() // a Builder's never fails
	return b.String()
}

// printPairs prints names and values in two columns.
func (a *App) printPairs(lines [][2]string) { a.Printf("%s", pairs(lines)) }

func pairs(lines [][2]string) string {
	width := 0
	for _, l := range lines {
		width = max(width, len(l[0]))
	}
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "%-*s  %s\n", width, l[0], printable(l[1]))
	}
	return b.String()
}

// printable is a text from the store or from an error, in which a hostile user of the store could have put control characters
// for the terminal of whoever looks.
func printable(text string) string {
	if !strings.ContainsFunc(text, hidden) && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for _, c := range text {
		if hidden(c) || c == utf8.RuneError {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(c), "'"))
		} else {
			b.WriteRune(c)
		}
	}
	return b.String()
}

func hidden(c rune) bool { return !unicode.IsPrint(c) }

// round drops the digits of d that nobody reads.
func round(d time.Duration) time.Duration {
	switch {
	case d >= time.Second:
		return d.Round(100 * time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(100 * time.Nanosecond)
}
