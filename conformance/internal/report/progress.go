package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// Planned is a case that is to run.
type Planned struct {
	ID    string
	Usual time.Duration // about how long it takes
	Alone bool          // it runs when no other does
}

// Ended is what came of a case.
type Ended struct {
	Passed, Failed bool
	Took           time.Duration
	Text           string // what to print of it, if anything
}

// Progress shows a run while it goes on.
type Progress struct {
	out      io.Writer
	live     bool // out is a terminal, and its last line shows what runs
	parallel int
	quit     chan struct{}
	wg       sync.WaitGroup

	mu       sync.Mutex
	cases    map[string]Planned
	todo     map[string]bool // not begun
	running  map[string]time.Time
	done     int
	passed   int
	failed   int
	took     time.Duration // by the cases that ran to their end
	expected time.Duration // of the same
	width    int           // of the line that the terminal shows
	err      error         // the first error of writing
}

// every is how often a run that no terminal shows tells how far it is.
const every = 10 * time.Second

// StartProgress shows the progress of cases, of which so many run at a time, until End.
func StartProgress(out io.Writer, live bool, parallel int, cases []Planned) *Progress {
	p := newProgress(out, live, parallel, cases)
	p.wg.Go(p.tick)
	return p
}

func newProgress(out io.Writer, live bool, parallel int, cases []Planned) *Progress {
	p := &Progress{
		out: out, live: live, parallel: parallel, quit: make(chan struct{}),
		cases: make(map[string]Planned), todo: make(map[string]bool), running: make(map[string]time.Time),
	}
	for _, c := range cases {
		p.cases[c.ID], p.todo[c.ID] = c, true
	}
	return p
}

// tick keeps the line up to date, or tells now and then how far the run is.
func (p *Progress) tick() {
	interval := every
	if p.live {
		interval = 200 * time.Millisecond
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-p.quit:
			return
		case now := <-ticker.C:
			p.mu.Lock()
			if p.live {
				p.draw(now)
			} else {
				p.print(p.line(now) + "\n")
			}
			p.mu.Unlock()
		}
	}
}

// Started notes that a case has begun.
func (p *Progress) Started(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.todo, id)
	p.running[id] = time.Now()
}

// Finished notes that a case has ended, and prints its text above the line.
func (p *Progress) Finished(id string, e Ended) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.running, id)
	p.done++
	switch {
	case e.Passed:
		p.passed++
	case e.Failed:
		p.failed++
	}
	if e.Took > 0 {
		p.took += e.Took
		p.expected += p.cases[id].Usual
	}
	if e.Text != "" {
		p.clear()
		p.print(e.Text)
	}
}

// End takes the line away.
func (p *Progress) End() {
	close(p.quit)
	p.wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

// Printf prints after the end.
func (p *Progress) Printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.print(fmt.Sprintf(format, args...))
}

// Err is the first error of writing.
func (p *Progress) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *Progress) print(text string) {
	if _, err := fmt.Fprint(p.out, text); err != nil && p.err == nil {
		p.err = err
	}
}

// clear wipes the line with spaces, which every terminal knows.
func (p *Progress) clear() {
	if p.width > 0 {
		p.print("\r" + strings.Repeat(" ", p.width) + "\r")
		p.width = 0
	}
}

func (p *Progress) draw(now time.Time) {
	line := p.line(now)
	p.print("\r" + line + strings.Repeat(" ", max(0, p.width-len(line))))
	p.width = len(line)
}

// maxLine is how wide the line may be: narrower than a terminal usually is.
const maxLine = 79

// line says how far the run is: "47 of 111, 45 passed, 0 failed, about 12s left: LOCK-20, LOCK-22".
func (p *Progress) line(now time.Time) string {
	line := fmt.Sprintf("%d of %d, %d passed, %d failed, about %v left: ",
		p.done, len(p.cases), p.passed, p.failed, p.left(now).Round(time.Second))
	var names []string
	for id := range p.running {
		names = append(names, id)
	}
	slices.Sort(names)
	line += strings.Join(names, ", ")
	if len(line) > maxLine {
		line = line[:maxLine-3] + "..."
	}
	return line
}

// left estimates the time to the end, from what cases usually take and from how long the finished ones took. Cases that
// run alone come last.
func (p *Progress) left(now time.Time) time.Duration {
	pace := 1.0
	if p.expected > 0 {
		pace = float64(p.took) / float64(p.expected)
	}
	var shared, alone, longest time.Duration
	add := func(c Planned, past time.Duration) {
		d := max(0, time.Duration(pace*float64(c.Usual))-past)
		if c.Alone {
			alone += d
		} else {
			shared += d
			longest = max(longest, d)
		}
	}
	for id := range p.todo {
		add(p.cases[id], 0)
	}
	for id, since := range p.running {
		add(p.cases[id], now.Sub(since))
	}
	return max(shared/time.Duration(p.parallel), longest) + alone
}
