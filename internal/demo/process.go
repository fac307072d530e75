package demo

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/coordgo/coord"
)

// job is what a worker process is told at its start.
type job struct {
	Role   role
	Keys   string // prefix of the keys
	Name   string
	TTL    time.Duration
	File   string // tickets
	Locked bool   // tickets
	Limit  coord.Limit
	Last   time.Duration // limit: for how long
}

// event is what a worker process tells, one per line.
type event struct {
	Kind   kind
	At     time.Time `json:"-"` // when it was heard
	Error  string    `json:",omitempty"`
	Away   bool      `json:",omitempty"` // the error is that the store is unavailable
	Token  coord.Token
	TTL    time.Duration `json:",omitempty"`
	Ticket int           `json:",omitempty"`
	Lost   bool          `json:",omitempty"`
	Takes  []take        `json:",omitempty"`
	Denied int           `json:",omitempty"`
}

type kind string

const (
	failed  kind = "failed"
	ready   kind = "ready" // and waits for a word
	waiting kind = "waiting"
	held    kind = "held"
	sold    kind = "sold"
	checked kind = "checked"
	wrote   kind = "wrote"
	done    kind = "done"
)

// The words that a worker process is told on its standard input, one per line.
const (
	wordGo    = "go"
	wordCheck = "check"
	wordWrite = "write"
)

// The variables of the environment of a worker process: its job, and the URL of its store.
const (
	envJob = "COORD_DEMO_JOB"
	envURL = "COORD_DEMO_URL"
)

// patience is how long the stage waits for any event.
const patience = time.Minute

// process is a worker process, seen from the stage.
type process struct {
	name   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	events chan event
}

// start starts a worker and waits until it is ready.
func (s *stage) start(j job) (*process, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	j.Keys = s.keys
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	p := &process{name: j.Name, cmd: exec.CommandContext(s.ctx, exe, WorkerCommand), events: make(chan event, 256)}
	p.cmd.Env = append(os.Environ(), envJob+"="+string(text), envURL+"="+s.url)
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = attributes()
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go p.listen(out)
	return p, nil
}

// startAll starts workers, and waits until all are ready.
func (s *stage) startAll(jobs []job) ([]*process, error) {
	all := make([]*process, 0, len(jobs))
	for _, j := range jobs {
		p, err := s.start(j)
		if err != nil {
			return nil, errors.Join(err, end(all...))
		}
		all = append(all, p)
	}
	for _, p := range all {
		if _, err := s.hear(p, ready); err != nil {
			return nil, errors.Join(err, end(all...))
		}
	}
	return all, nil
}

// listen hears the worker until it ends.
func (p *process) listen(out io.Reader) {
	defer close(p.events)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		e := event{At: time.Now()}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			e = event{At: e.At, Kind: failed, Error: err.Error()}
		}
		p.events <- e
	}
	if err := lines.Err(); err != nil && !errors.Is(err, os.ErrClosed) {
		p.events <- event{Kind: failed, Error: err.Error()}
	}
}

// hear waits for an event of that kind. A worker's failure ends the demonstration.
func (s *stage) hear(p *process, want kind) (event, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case e, ok := <-p.events:
		return e, p.expected(e, ok, want)
	case <-s.ctx.Done():
		return event{}, s.ctx.Err()
	case <-timer.C:
		return event{}, fmt.Errorf("process %s did not say %q within %v", p.name, want, patience)
	}
}

func (p *process) expected(e event, ok bool, want kind) error {
	switch {
	case !ok:
		return fmt.Errorf("process %s ended before it said %q", p.name, want)
	case e.Kind == failed:
		return &workerError{fmt.Sprintf("process %s: %s", p.name, strings.TrimPrefix(e.Error, "coord: ")), e.Away}
	case e.Kind != want:
		return fmt.Errorf("process %s said %q where %q was due", p.name, e.Kind, want)
	}
	return nil
}

// workerError is what a worker failed with.
type workerError struct {
	text string
	away bool
}

func (e *workerError) Error() string { return e.text }

// Is makes it coord.ErrUnavailable where it was that for the worker.
func (e *workerError) Is(target error) bool { return e.away && target == coord.ErrUnavailable }

// tell sends a word.
func (p *process) tell(word string) error {
	_, err := io.WriteString(p.in, word+"\n")
	return err
}

// end lets processes end: one whose input is closed gives back what it holds.
func end(all ...*process) error {
	var errs []error
	for _, p := range all {
		if err := p.in.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			errs = append(errs, err)
		}
	}
	for _, p := range all {
		timer := time.AfterFunc(patience, func() {
			_ = p.cmd.Process.Kill() // it fails only if the process has just ended
		})
		for range p.events { // until its output ends
		}
		err := p.cmd.Wait()
		timer.Stop()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
