package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"
)

// Ended is what came of a case.
type Ended struct {
	Passed, Failed bool
	Text           string // what to print of it, if anything
}

// Progress shows a run while it goes on.
type Progress struct {
	out   io.Writer
	cases int
	quit  chan struct{}
	wg    sync.WaitGroup

	mu      sync.Mutex
	running map[string]bool
	done    int
	passed  int
	failed  int
	err     error // the first error of writing
}

// every is how often a run tells how far it is.
const every = 10 * time.Second

// StartProgress shows the progress of so many cases, until End.
func StartProgress(out io.Writer, cases int) *Progress {
	p := &Progress{out: out, cases: cases, quit: make(chan struct{}), running: make(map[string]bool)}
	p.wg.Go(p.tick)
	return p
}

// tick tells now and then how far the run is.
func (p *Progress) tick() {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-p.quit:
			return
		case <-ticker.C:
			p.Printf("%s\n", p.line())
		}
	}
}

// Started notes that a case has begun.
func (p *Progress) Started(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running[id] = true
}

// Finished notes that a case has ended, and prints its text.
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
	if e.Text != "" {
		p.print(e.Text)
	}
}

// End ends the lines that tell how far the run is.
func (p *Progress) End() {
	close(p.quit)
	p.wg.Wait()
}

// Printf prints.
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

// maxLine is how wide the line may be: narrower than a terminal usually is.
const maxLine = 79

// line says how far the run is: "47 of 111, 45 passed, 0 failed: LOCK-20, LOCK-22".
func (p *Progress) line() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := fmt.Sprintf("%d of %d, %d passed, %d failed: ", p.done, p.cases, p.passed, p.failed)
	line += Join(slices.Sorted(maps.Keys(p.running)))
	if len(line) > maxLine {
		line = line[:maxLine-3] + "..."
	}
	return line
}
