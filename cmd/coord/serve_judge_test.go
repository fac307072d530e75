package main_test

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// belief is what one holder believed: that it held a key, from when it was told to its own deadline, or until it asked
// for the end. All times are on the clock of the machine, which all processes share.
type belief struct {
	who, key    string
	token       int64
	from, until time.Duration
	released    bool
}

func (b *belief) String() string {
	return fmt.Sprintf("%s: %s (token %d, from %v until %v)", b.key, b.who, b.token, b.from, b.until)
}

// said is a line of a caller: of coord-lock.sh -v, and of the others in the same form.
var said = regexp.MustCompile(`^coord-lock: (\S+) (held|released) (\d+) at (\d+\.\d+)(?: until (\d+\.\d+))?$`)

// beliefs reads what a caller has said.
func beliefs(who, text string) (list []*belief, err error) {
	for line := range strings.Lines(text) {
		line, whole := strings.CutSuffix(line, "\n")
		m := said.FindStringSubmatch(line)
		switch {
		case !whole || m == nil && !strings.Contains(line, " held "): // of one that was killed before it went by it, or of curl
			continue
		case m == nil:
			return nil, fmt.Errorf("%s: %q", who, line)
		}
		token, terr := strconv.ParseInt(m[3], 10, 64)
		at, aerr := onClock(m[4])
		if terr != nil || aerr != nil {
			return nil, fmt.Errorf("%s: %q", who, line)
		}
		same := func(b *belief) bool { return b.key == m[1] && b.token == token }
		i := slices.IndexFunc(list, same)
		if m[2] == "released" {
			if i >= 0 {
				list[i].until, list[i].released = min(list[i].until, at), true
			}
			continue
		}
		until, err := onClock(m[5])
		if err != nil {
			return nil, fmt.Errorf("%s: %q", who, line)
		}
		switch {
		case i < 0:
			if _, digits, _ := strings.Cut(m[4], "."); len(digits) == 2 {
				at += 10 * time.Millisecond // a shell's clock shows the beginning of each hundredth
			}
			list = append(list, &belief{who, m[1], token, at, until, false})
		case list[i].released:
			return nil, fmt.Errorf("%s: %q after its release", who, line)
		default:
			list[i].until = max(list[i].until, until)
		}
	}
	return list, nil
}

// onClock reads seconds.
func onClock(text string) (time.Duration, error) {
	seconds, digits, _ := strings.Cut(text, ".")
	s, err := strconv.ParseInt(seconds, 10, 32)
	if err != nil {
		return 0, err
	}
	ns, err := strconv.ParseInt((digits + "000000000")[:9], 10, 64)
	return time.Duration(s)*time.Second + time.Duration(ns), err
}

// judge finds what must not be: two who believe in a key at one time, and tokens that do not rise.
func judge(all []*belief) (faults []string) {
	slices.SortFunc(all, func(a, b *belief) int { return cmp.Compare(a.from, b.from) })
	last, longest := map[string]*belief{}, map[string]*belief{}
	for _, b := range all {
		if b.until <= b.from {
			continue // it was frozen before it could believe anything
		}
		if l := last[b.key]; l != nil && b.token <= l.token {
			faults = append(faults, fmt.Sprintf("%s got an old token after %s", b, l))
		}
		if l := longest[b.key]; l != nil && b.from < l.until {
			faults = append(faults, fmt.Sprintf("%s held it beside %s", b, l))
		}
		last[b.key] = b
		if l := longest[b.key]; l == nil || b.until > l.until {
			longest[b.key] = b
		}
	}
	return faults
}

// The judge finds what was forged, and nothing else.
func TestServeJudge(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		a, b   string
		faults int
	}{
		"one after the other":       {"k held 1 at 1.000 until 2.000", "k held 2 at 2.000 until 3.000", 0},
		"two at a time":             {"k held 1 at 1.000 until 2.000", "k held 2 at 1.999 until 3.000", 1},
		"two keys":                  {"k held 1 at 1.000 until 2.000", "l held 1 at 1.500 until 3.000", 0},
		"renewed":                   {"k held 1 at 1.000 until 2.000\ncoord-lock: k held 1 at 1.600 until 2.600", "k held 2 at 2.500 until 3.000", 1},
		"released":                  {"k held 1 at 1.000 until 9.000\ncoord-lock: k released 1 at 1.500", "k held 2 at 1.500 until 3.000", 0},
		"released too late":         {"k held 1 at 1.000 until 9.000\ncoord-lock: k released 1 at 2.500", "k held 2 at 1.500 until 3.000", 1},
		"an old token":              {"k held 2 at 1.000 until 2.000", "k held 1 at 2.000 until 3.000", 1},
		"frozen, with an old token": {"k held 2 at 1.000 until 2.000", "k held 1 at 1.500 until 0.900", 0},
		"one token for two":         {"k held 1 at 1.000 until 2.000", "k held 1 at 2.000 until 3.000", 1},
		"both":                      {"k held 2 at 1.000 until 2.000", "k held 2 at 1.500 until 3.000", 2},
		"a shell's clock":           {"k held 1 at 1.00 until 2.00", "k held 2 at 1.99 until 3.00", 0},
		"a shell's clock, early":    {"k held 1 at 1.00 until 2.00", "k held 2 at 1.98 until 3.00", 1},
	} {
		var all []*belief
		for who, text := range map[string]string{"a": tc.a, "b": tc.b} {
			list, err := beliefs(who, "curl: (7) Failed\ncoord-lock: "+text+"\ncoord-lock: k held 9 at 1")
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			all = append(all, list...)
		}
		if got := judge(all); len(got) != tc.faults {
			t.Errorf("%s: %q, want %d", name, got, tc.faults)
		}
	}
	for _, text := range []string{"coord-lock: k held x at 1 until 2\n", "coord-lock: k held 1 at 1.0 until 2.0\ncoord-lock: k released 1 at 1.1\ncoord-lock: k held 1 at 1.2 until 2.0\n"} {
		if _, err := beliefs("a", text); err == nil {
			t.Errorf("%q is no mistake", text)
		}
	}
}
