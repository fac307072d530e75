package chaos

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coordgo/coord"
)

// Report is what was seen.
type Report struct {
	Name    string        `json:"name"`
	Server  string        `json:"server,omitempty"`
	Clients int           `json:"clients"`
	Keys    int           `json:"keys"`
	TTL     time.Duration `json:"ttl_ns"`
	Limit   string        `json:"limit"`
	Took    time.Duration `json:"took_ns"`

	// Grants counts by mode. Each mode that is there must have some.
	Grants map[string]int `json:"grants"`
	Lost   int            `json:"lost"`
	// Deaths is how many processes were killed while they held, Inherited how often a successor had what they had, LongestDead
	// the longest time to that without a break.
	Deaths      int           `json:"deaths"`
	Inherited   int           `json:"inherited"`
	LongestDead time.Duration `json:"longest_dead_ns"`
	Skipped     string        `json:"skipped,omitempty"` // what was not done, and why
	Admitted    int           `json:"admitted"`
	Denied      int           `json:"denied"`
	// Peak is the most permits that were certainly granted within one period.
	Peak         int           `json:"peak"`
	LongestClose time.Duration `json:"longest_close_ns"`
	// LongestStall is how late at most somebody saw the end of a context who waited for nothing
	// else: for so long the machine had no time for the scenario.
	LongestStall time.Duration  `json:"longest_stall_ns"`
	Breaks       []BreakReport  `json:"breaks"`
	Errors       map[string]int `json:"errors"` // that a broken store may cause
	// Failover counts what went wrong while a lossy store was broken; Failures are the
	// first of it.
	Failover int      `json:"failover,omitempty"`
	Failures []string `json:"failures,omitempty"`

	// The breaches: all empty, or the store is not what it claims.
	Overlaps   []string `json:"overlaps,omitempty"`
	Tokens     []string `json:"tokens,omitempty"`
	Bound      []string `json:"bound,omitempty"`
	Overdue    []string `json:"overdue,omitempty"`
	Late       []string `json:"late,omitempty"`
	Stuck      []string `json:"stuck,omitempty"`
	Unexpected []string `json:"unexpected,omitempty"`

	mourns bool // somebody must have died
}

// BreakReport is one break.
type BreakReport struct {
	Name string `json:"name"`
	// Recovery is how long after the heal every key had been locked anew.
	Recovery time.Duration `json:"recovery_ns"`
}

// report closes the books.
func (c *checker) report() *Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rep.Took = time.Since(c.start)
	c.rep.Admitted = len(c.takes)
	c.checkBound()
	return &c.rep
}

// checkBound counts, for each permit, those that were certainly granted within one
// period from when it was asked for. checker.mu is held.
func (c *checker) checkBound() {
	l, err := c.scenario.Limit.Normal()
	if err != nil || l.Algorithm != coord.SlidingWindow {
		c.rep.Unexpected = append(c.rep.Unexpected, fmt.Sprintf("a scenario checks sliding windows only: %v, %v", l, err))
		return
	}
	slices.SortFunc(c.takes, func(a, b take) int { return a.sent.Compare(b.sent) })
	for i, first := range c.takes {
		end, n := first.sent.Add(l.Per), 0
		for _, t := range c.takes[i:] {
			if t.sent.After(end) {
				break
			}
			if !t.got.After(end) {
				n++
			}
		}
		c.rep.Peak = max(c.rep.Peak, n)
		if n > l.Rate {
			text := fmt.Sprintf("%v: %d permits within %v", first.sent.Sub(c.start), n, l.Per)
			if c.scenario.Lossy && (c.inWindow(first.sent) || c.inWindow(end)) {
				c.documented(text)
			} else {
				c.rep.Bound = append(c.rep.Bound, text)
			}
		}
	}
}

// Err is nil if nothing that is promised was broken.
func (r *Report) Err() error {
	var errs []error
	for _, b := range []struct {
		what string
		list []string
	}{
		{"two live holders", r.Overlaps}, // or more than the bound
		{"shares of dead holders that do not come back", r.Overdue},
		{"tokens that do not rise", r.Tokens},
		{"a limit above its bound", r.Bound},
		{"calls that outlast their context", r.Late},
		{"work that does not go on", r.Stuck},
		{"unexpected errors", r.Unexpected},
	} {
		if len(b.list) > 0 {
			errs = append(errs, fmt.Errorf("%s, %d times:\n  %s", b.what, len(b.list), strings.Join(b.list[:min(len(b.list), 5)], "\n  ")))
		}
	}
	for mode, n := range r.Grants { // how many there are is up to the machine
		if n == 0 {
			errs = append(errs, fmt.Errorf("never granted: %s", mode))
		}
	}
	if r.Admitted == 0 {
		errs = append(errs, errors.New("no permit of the limit was granted"))
	}
	if r.mourns && r.Inherited == 0 {
		errs = append(errs, fmt.Errorf("no successor of %d dead holders had what they had", r.Deaths))
	}
	return errors.Join(errs...)
}

// String is the report for people.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d clients, %d keys of TTL %v, limit %s, %v\n", r.Name, r.Clients, r.Keys, r.TTL, r.Limit, r.Took.Round(time.Second))
	fmt.Fprintf(&b, "  grants %v, %d lost; limit: %d permits, %d denied, at most %d in one period\n", r.Grants, r.Lost, r.Admitted, r.Denied, r.Peak)
	fmt.Fprintf(&b, "  %d holders killed, %d successors, at most %v later without a break\n", r.Deaths, r.Inherited, r.LongestDead.Round(time.Millisecond))
	if r.Skipped != "" {
		fmt.Fprintf(&b, "  %s\n", r.Skipped)
	}
	longest := map[string]time.Duration{}
	count := map[string]int{}
	for _, br := range r.Breaks {
		longest[br.Name] = max(longest[br.Name], br.Recovery)
		count[br.Name]++
	}
	for _, name := range slices.Sorted(maps.Keys(longest)) {
		fmt.Fprintf(&b, "  %s, %d times: work went on at most %v after the heal\n", name, count[name], longest[name].Round(time.Millisecond))
	}
	for _, e := range slices.Sorted(maps.Keys(r.Errors)) {
		fmt.Fprintf(&b, "  %d × %s\n", r.Errors[e], e)
	}
	fmt.Fprintf(&b, "  the end of a context was seen at most %v late\n", r.LongestStall.Round(time.Millisecond))
	if r.Failover > 0 {
		fmt.Fprintf(&b, "  %d breaches while the store was broken, as documented; the first: %s\n", r.Failover, r.Failures[0])
	}
	return b.String()
}
