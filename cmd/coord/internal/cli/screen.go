package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"
)

// The control sequences of ECMA-48 and xterm that a screen uses.
const (
	screenOn   = "\x1b[?1049h\x1b[?25l" // the other screen, without a cursor
	screenOff  = "\x1b[?25h\x1b[?1049l"
	screenHome = "\x1b[H"
	lineRest   = "\x1b[K"
	screenRest = "\x1b[J"
)

// onTerminal reports whether standard output is a terminal that can be drawn on.
func onTerminal() bool {
	return term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("TERM") != "dumb"
}

// terminalSize is that of standard output, or what terminals have as a rule.
func terminalSize() (columns, rows int) {
	columns, rows, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil || columns <= 0 || rows <= 0 {
		return 80, 24
	}
	return columns, rows
}

// screen keeps a table up to date on a terminal. What was there before comes back in
// the end, followed by the last table.
type screen struct {
	out    io.Writer
	colour bool
	last   string
}

func newScreen(out io.Writer) *screen {
	io.WriteString(out, screenOn)
	return &screen{out: out, colour: os.Getenv("NO_COLOR") == ""}
}

// show draws over what was drawn before, in one write, so that nothing flickers.
func (s *screen) show(sights []sight) error {
	columns, rows := terminalSize()
	lines := tables(sights, columns, s.colour)
	s.last = strings.Join(lines, "\n") + "\n"
	const head = 3 // lines: ours, an empty one, and the last, where the cursor is
	if most := max(rows-head, 1); len(lines) > most {
		lines = append(lines[:most-1:most-1], fmt.Sprintf("… %d more lines", len(lines)-most+1))
	}
	title := runewidth.Truncate(time.Now().Format(time.DateTime)+"   Ctrl-C ends", columns, "")
	frame := title + "\n\n" + strings.Join(lines, "\n") + "\n"
	_, err := io.WriteString(s.out, screenHome+strings.ReplaceAll(frame, "\n", lineRest+"\n")+screenRest)
	return err
}

func (s *screen) close() { io.WriteString(s.out, screenOff+s.last) }
