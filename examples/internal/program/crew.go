package program

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord"
)

const (
	ready   = "ready"
	wordGo  = "go"
	longest = 16 << 20 // line of a process
)

// Crew is a number of processes, copies of this program, which tell events of type E.
type Crew[E any] struct {
	processes []*Process
	ctx       context.Context
	cancel    context.CancelCauseFunc
	events    chan Event[E]
	patience  time.Duration
	running   sync.WaitGroup
	told      bool // Next has returned why the crew ended
}

// Event is what a process told.
type Event[E any] struct {
	By   *Process
	What E
}

// Process is one of a crew, seen from the program that started it.
type Process struct {
	Name   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	killed atomic.Bool
}

// Start starts a process of each name, with the flags of this one, and waits until all are ready. They begin when they are
// told to: see Go. End the crew.
func Start[E any](ctx context.Context, p *Program, names ...string) (*Crew[E], error) {
	if strings.HasPrefix(p.URL, "memory:") {
		return nil, fmt.Errorf("%w: a memory store is one process's own, and this example starts several: leave --url out, or name file:// or redis://", coord.ErrInvalid)
	}
	c := &Crew[E]{events: make(chan Event[E], 1024), patience: p.Patience}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	started := make(chan struct{}, len(names))
	for _, name := range names {
		if err := c.start(p, name, started); err != nil {
			c.cancel(err)
			return nil, c.End()
		}
	}
	late := time.AfterFunc(c.patience, func() { c.cancel(errors.New("a process does not begin")) })
	defer late.Stop()
	for range names {
		select {
		case <-started:
		case <-c.ctx.Done():
			return nil, c.End()
		}
	}
	return c, nil
}

// start starts one process. When it has ended by itself with an error, so does the crew.
func (c *Crew[E]) start(p *Program, name string, started chan<- struct{}) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	s := &Process{Name: name, cmd: exec.CommandContext(c.ctx, exe, os.Args[1:]...)}
	s.cmd.Env = append(os.Environ(), envName+"="+name, envURL+"="+p.URL, envPrefix+"="+p.Prefix, envDir+"="+p.Dir)
	s.cmd.Stderr = os.Stderr
	s.cmd.SysProcAttr = attributes()
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	c.processes = append(c.processes, s)
	c.running.Go(func() {
		err := c.listen(s, out, started)
		if ended := s.cmd.Wait(); err == nil && !s.killed.Load() {
			err = ended
		}
		if err != nil {
			c.cancel(fmt.Errorf("process %s: %w", name, err))
		}
	})
	return nil
}

// listen hears a process until its output ends.
func (c *Crew[E]) listen(s *Process, out io.Reader, started chan<- struct{}) error {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, longest)
	for lines.Scan() {
		if lines.Text() == ready {
			started <- struct{}{}
			continue
		}
		e := Event[E]{By: s}
		if err := json.Unmarshal(lines.Bytes(), &e.What); err != nil {
			return err
		}
		select {
		case c.events <- e:
		case <-c.ctx.Done():
			return nil
		}
	}
	return lines.Err()
}

// Go tells all processes to begin.
func (c *Crew[E]) Go() error { return c.Say(wordGo) }

// Say says a word to all processes.
func (c *Crew[E]) Say(word string) error {
	for _, s := range c.processes {
		if err := s.Say(word); err != nil {
			return err
		}
	}
	return nil
}

// Next is the next event of any process.
func (c *Crew[E]) Next() (Event[E], error) {
	timer := time.NewTimer(c.patience)
	defer timer.Stop()
	select {
	case e := <-c.events:
		return e, nil
	case <-c.ctx.Done():
		c.told = true
		return Event[E]{}, context.Cause(c.ctx)
	case <-timer.C:
		return Event[E]{}, fmt.Errorf("no process has told anything for %v", c.patience)
	}
}

// Events are the next n events.
func (c *Crew[E]) Events(n int) iter.Seq2[Event[E], error] {
	return func(yield func(Event[E], error) bool) {
		for range n {
			if e, err := c.Next(); !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Process is the one of that name.
func (c *Crew[E]) Process(name string) *Process {
	for _, s := range c.processes {
		if s.Name == name {
			return s
		}
	}
	panic("no process is called " + name)
}

// End ends the input of all processes, at which they end too, and waits for them. A process that does not is killed. The
// error is that of a process that failed, unless Next has given it.
func (c *Crew[E]) End() error {
	for _, s := range c.processes {
		_ = s.Thaw()     // one that has ended cannot go on,
		_ = s.in.Close() // and has no input to close
	}
	late := time.AfterFunc(c.patience, func() { c.cancel(errors.New("a process does not end")) })
	defer late.Stop()
	heard := make(chan struct{})
	go func() { // what nobody waits for any more
		defer close(heard)
		for {
			select {
			case <-c.events:
			case <-c.ctx.Done():
				return
			}
		}
	}()
	c.running.Wait()
	err := context.Cause(c.ctx)
	c.cancel(nil)
	<-heard
	if c.told {
		return nil
	}
	return err
}

// Go tells the process to begin.
func (s *Process) Go() error { return s.Say(wordGo) }

// Say says a word to the process, which is a line of its input.
func (s *Process) Say(word string) error {
	if strings.ContainsAny(word, "\n") {
		return fmt.Errorf("%q is more than a line", word)
	}
	_, err := io.WriteString(s.in, word+"\n")
	return err
}

// Kill ends the process with kill -9: it can do nothing about it, nor give anything back.
func (s *Process) Kill() error {
	s.killed.Store(true)
	if err := s.cmd.Process.Kill(); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
