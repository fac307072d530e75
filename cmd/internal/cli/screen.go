package cli

import (
	"fmt"
	"io"
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
	LineRest   = "\x1b[K"
	screenRest = "\x1b[J"
)

// OnTerminal reports whether standard output is a terminal that can be drawn on.
func (a *App) OnTerminal() bool {
	_, ok := a.terminal()
	return ok && a.getenv("TERM") != "dumb"
}

// terminalSize is that of standard output, or what terminals have as a rule.
func (a *App) terminalSize() (columns, rows int) {
	if fd, ok := a.terminal(); ok {
		columns, rows, err := term.GetSize(fd)
		if err == nil && columns > 0 && rows > 0 {
			return columns, rows
		}
	}
	return 80, 24
}

// screen keeps a table up to date on a terminal. What was there before comes back in
// the end, followed by the last table.
type screen struct {
	out    io.Writer
	size   func() (columns, rows int)
	colour bool
	last   string
}

func (a *App) newScreen() *screen {
	io.WriteString(a.stdout, screenOn)
	return &screen{out: a.stdout, size: a.terminalSize, colour: a.getenv("NO_COLOR") == ""}
}

// show draws over what was drawn before, in one write, so that nothing flickers.
func (s *screen) show(sights []sight) error {
	columns, rows := s.size()
	lines := tables(sights, columns, s.colour)
	if len(lines) == 0 {
		lines = []string{"nothing is held"}
	}
	s.last = strings.Join(lines, "\n") + "\n"
	const head = 3 // lines: ours, an empty one, and the last, where the cursor is
	if most := max(rows-head, 1); len(lines) > most {
		lines = append(lines[:most-1:most-1], fmt.Sprintf("… %d more lines", len(lines)-most+1))
	}
	title := runewidth.Truncate(time.Now().Format(time.DateTime)+"   Ctrl-C ends", columns, "")
	frame := title + "\n\n" + strings.Join(lines, "\n") + "\n"
	_, err := io.WriteString(s.out, screenHome+strings.ReplaceAll(frame, "\n", LineRest+"\n")+screenRest)
	return err
}

func (s *screen) close() { io.WriteString(s.out, screenOff+s.last) }
