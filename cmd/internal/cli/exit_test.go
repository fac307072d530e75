package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unicode"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/cmd/internal/child"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/internal/golden"
)

func TestClassify(t *testing.T) {
	failed := func(op string, errs ...error) error {
		return &coord.Error{Op: op, Backend: "redis", Key: "a", Err: errors.Join(errs...)}
	}
	for _, tt := range []struct {
		err  error
		code int
		text string
	}{
		{Usage("--x %d", 7), 64, "--x 7"},
		{Exit(75, ""), 75, ""},
		{child.Interrupted{Signal: syscall.SIGTERM}, 143, ""},
		{&child.NotRunError{Code: 127, Err: errors.New("x")}, 127, "x"},
		{&config.Error{File: "f", Line: 3, Problem: "x"}, 78, "f:3: x"},
		{failed("lock", coord.ErrLocked, context.DeadlineExceeded), 75, `lock "a" on redis: locked by another holder; context deadline exceeded`},
		{failed("wait", coord.ErrLimited), 75, `wait "a" on redis: limited`},
		{failed("unlock", coord.ErrLost), 74, `unlock "a" on redis: lock lost`},
		{failed("lock", coord.ErrInvalid), 64, `lock "a" on redis: invalid argument`},
		{failed("allow", coord.ErrExceedsBurst), 64, `allow "a" on redis: more permits than the limit ever grants at once`},
		{failed("break", coord.ErrUnsupported), 64, `break "a" on redis: not supported by this store`},
		{failed("lock", coord.ErrCorrupt), 65, `lock "a" on redis: stored value is not coord's: choose another name or prefix`},
		{failed("lock", coord.ErrUnavailable, errors.New("refused")), 69, `lock "a" on redis: store unavailable; refused`},
		{failed("lock", coord.ErrUnknownOutcome), 69, `lock "a" on redis: outcome unknown`},
		{&os.PathError{Op: "mkdir", Path: "/x", Err: syscall.EACCES}, 73, "mkdir /x: permission denied"},
		{failed("lock", coord.ErrUnavailable, &os.PathError{Op: "open", Path: "/x", Err: syscall.EACCES}), 69, `lock "a" on redis: store unavailable; open /x: permission denied`},
		{fmt.Errorf("coord: %w", errors.New("what\nis\r\nthis")), 70, "what; is; this"},
	} {
		if code, text := classify(tt.err); code != tt.code || text != tt.text {
			t.Errorf("classify(%v) = %d, %q, want %d, %q", tt.err, code, text, tt.code, tt.text)
		}
	}
}

// The page has the statuses that the help has.
func TestExitTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("| status | |\n| --- | --- |\n")
	for line := range strings.Lines(exitHelp) {
		fields := strings.Fields(line)
		if _, err := strconv.Atoi(fields[0]); err != nil {
			continue // the heading
		}
		b.WriteString("| " + fields[0] + " | " + strings.Join(fields[1:], " ") + " |\n")
	}
	golden.Section(t, "../../../docs/command.md", "<!-- statuses: written by go test ./cmd/internal/cli -run ExitTable -update -->\n",
		"<!-- end of statuses -->\n", b.String())
}

// What somebody else has written into the store cannot steer the terminal of whoever looks at it.
func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "",
		"worker-1 ünï 漢":           "worker-1 ünï 漢",
		"a\x1b[2Jb":                `a\x1b[2Jb`,
		"a\r\nb\tc\x7f":            `a\r\nb\tc\x7f`,
		"c1 \u009b31m, rtl \u202e": `c1 \u009b31m, rtl \u202e`,
		"not \xff UTF-8":           `not \ufffd UTF-8`,
	} {
		if got := printable(text); got != want {
			t.Errorf("%q is printed as %q, want %q", text, got, want)
		}
		h := coord.Holder{Name: text, ID: text, PID: 7}
		out := pairs([][2]string{{"holder", who(h)}, {"id", h.ID}})
		cells := sight{lockStatus: &lockStatus{Name: text, State: stateHeld, holder: h}}.cells()
		line := strings.Join(cells[:], " ")
		for _, c := range line + strings.ReplaceAll(out, "\n", "") {
			if !unicode.IsPrint(c) {
				t.Errorf("%q: %q is printed in %q and %q", text, c, line, out)
			}
		}
	}
}
