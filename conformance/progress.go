package conformance

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// progress shows a run while it goes on.
type progress struct {
	c        *Command
	parallel int
	quit     chan struct{}
	wg       sync.WaitGroup

	mu        sync.Mutex
	todo      map[string]Case // not begun
	running   map[string]time.Time
	cases     map[string]Case
	done      int
	counts    map[Outcome]int
	took      time.Duration // by the cases that ran to their end
	expected  time.Duration // of the same
	width     int           // of the line that the terminal shows
	unwritten error         // the first error of writing
}

func startProgress(c *Command, s *Suite) *progress {
	p := &progress{
		c: c, parallel: cmp.Or(s.Parallel, DefaultParallel), quit: make(chan struct{}),
		todo: make(map[string]Case), running: make(map[string]time.Time), cases: make(map[string]Case), counts: make(map[Outcome]int),
	}
	for _, cs := range s.selected() {
		p.todo[cs.ID], p.cases[cs.ID] = cs, cs
	}
	p.wg.Go(p.tick)
	return p
}

// tick keeps the line up to date, or tells now and then how far the run is.
func (p *progress) tick() {
	interval := every
	if p.c.Live {
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
			if p.c.Live {
				p.draw(now)
			} else {
				p.print(p.line(now) + "\n")
			}
			p.mu.Unlock()
		}
	}
}

func (p *progress) started(c Case) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.todo, c.ID)
	p.running[c.ID] = time.Now()
}

func (p *progress) finished(s *Suite, r Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.running, r.ID)
	p.done++
	p.counts[r.Outcome]++
	if r.Took > 0 {
		p.took += r.Took
		p.expected += usual(&r.Case)
	}
	switch {
	case r.Outcome == Fail || r.Outcome == Deviates:
		p.tell(fmt.Sprintf("%-11s %s\n%s\n", r.Outcome, r.FullName(), s.Explain(r)))
	case p.c.Verbose && r.Reason != "":
		p.tell(fmt.Sprintf("%-11s %s: %s\n", r.Outcome, r.FullName(), r.Reason))
	case p.c.Verbose:
		p.tell(fmt.Sprintf("%-11s %s %v\n", r.Outcome, r.FullName(), r.Took.Round(time.Millisecond)))
	}
}

// end takes the line away.
func (p *progress) end() {
	close(p.quit)
	p.wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

func (p *progress) printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.print(fmt.Sprintf(format, args...))
}

// tell prints above the line.
func (p *progress) tell(text string) {
	p.clear()
	p.print(text)
}

func (p *progress) print(text string) {
	if _, err := fmt.Fprint(p.c.Out, text); err != nil && p.unwritten == nil {
		p.unwritten = err
	}
}

// clear wipes the line with spaces, which every terminal knows.
func (p *progress) clear() {
	if p.width > 0 {
		p.print("\r" + strings.Repeat(" ", p.width) + "\r")
		p.width = 0
	}
}

func (p *progress) draw(now time.Time) {
	line := p.line(now)
	p.print("\r" + line + strings.Repeat(" ", max(0, p.width-len(line))))
	p.width = len(line)
}

// maxLine is how wide the line may be: narrower than a terminal usually is.
const maxLine = 79

// line says how far the run is: "47 of 111, 45 passed, 0 failed, about 12s left: LOCK-20, LOCK-22".
func (p *progress) line(now time.Time) string {
	failed := p.counts[Fail] + p.counts[Deviates]
	line := fmt.Sprintf("%d of %d, %d passed, %d failed, about %v left: ",
		p.done, len(p.cases), p.counts[Pass], failed, p.left(now).Round(time.Second))
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

// left estimates the time to the end, from what cases usually take and from how long those took
// that are through. Cases that run alone come last.
func (p *progress) left(now time.Time) time.Duration {
	pace := 1.0
	if p.expected > 0 {
		pace = float64(p.took) / float64(p.expected)
	}
	var shared, alone, longest time.Duration
	add := func(c Case, past time.Duration) {
		d := max(0, time.Duration(pace*float64(usual(&c)))-past)
		if c.exclusive() {
			alone += d
		} else {
			shared += d
			longest = max(longest, d)
		}
	}
	for _, c := range p.todo {
		add(c, 0)
	}
	for id, since := range p.running {
		add(p.cases[id], now.Sub(since))
	}
	return max(shared/time.Duration(p.parallel), longest) + alone
}

// durations are what cases take, in milliseconds: the median over the stores of the
// reports that docs/generated/compatibility.md is made of, whose generator writes the file.
//
//go:embed durations.json
var durations []byte

var usualTimes = sync.OnceValue(func() map[string]int64 {
	times := make(map[string]int64)
	if err := json.Unmarshal(durations, &times); err != nil {
		panic(err) // the file is part of this package
	}
	return times
})

// usual is how long a case takes on a usual store, about.
func usual(c *Case) time.Duration {
	ms, ok := usualTimes()[c.ID]
	if !ok {
		ms = 1000
	}
	return time.Duration(ms) * time.Millisecond
}
