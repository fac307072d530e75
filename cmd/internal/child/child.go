// Package child runs a command while a lock is held: the command gets the
// terminal, the signals and the environment as if it had been started directly,
// and does not outlive the lock.
package child

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Command is what to run, on the standard input, output and error of this process.
type Command struct {
	path string
	args []string
}

// Args are the name of the command as it was given, and its arguments.
func (c Command) Args() []string { return c.args }

// The exit statuses of a command that cannot be run, as in a shell.
const (
	NotExecutable = 126
	NotFound      = 127
)

// NotRunError says that a command was not run.
type NotRunError struct {
	// Code is NotFound or NotExecutable.
	Code int
	// Err names the command and says why.
	Err error
}

func (e *NotRunError) Error() string { return e.Err.Error() }
func (e *NotRunError) Unwrap() error { return e.Err }

// Find looks the command up. Its error is a [*NotRunError].
func Find(args []string) (Command, error) {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return Command{}, notRun(args[0], err)
	}
	return Command{path, args}, nil
}

// notRun classifies why a command could not be run.
func notRun(name string, err error) error {
	var inner *exec.Error
	if errors.As(err, &inner) {
		err = inner.Err
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	code := NotExecutable
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		code = NotFound
	}
	return &NotRunError{code, fmt.Errorf("cannot run %q: %w", name, err)}
}

// Lock is what a command runs under: *coord.Lock.
type Lock interface {
	Done() <-chan struct{}
	Deadline() time.Time
	TTL() time.Duration
	Err() error
}

// Limits say when a command has to end, though its lock would last.
type Limits struct {
	// Grace is the time between TERM and KILL. Of a lease that is shorter than was asked
	// for, it is a third at most.
	Grace time.Duration
	// MaxRun bounds how long the command runs; 0 is no bound. Its last part is the grace.
	MaxRun time.Duration
}

// Reason says why a command was told to end.
type Reason int

// The reasons. A command whose lock is lost counts as Lost, whatever came first.
const (
	Untold Reason = iota // it was not: it ended by itself, or by a signal that was passed on
	MaxRun               // Limits.MaxRun was over
	Lost                 // its lock was lost, or could not be renewed in time
)

// Run runs cmd with env added to the environment and gives its exit status; 128+n
// if signal n killed it. Signals that come to this process are passed on. Run returns only
// when the command has ended.
//
// A command does not outlive lock, as far as it can be ended. When the lease cannot be
// renewed, the command gets TERM l.Grace before the lease ends, and KILL, with all of its
// process group, when it ends. When the lock is found lost, it gets TERM at once and KILL
// after the grace, or when the lease ends if that is sooner. Limits.MaxRun ends it likewise.
//
// warn is called at once, and not twice for one error, when a signal does not reach the
// command: it may run as another user, and go on then. On Linux it is also called when processes
// that the command has started go on after it.
//
// The error is a [*NotRunError] if cmd was not started.
func Run(cmd Command, env []string, lock Lock, l Limits, sigs *Signals, warn func(error)) (code int, told Reason, err error) {
	// The kernel ties the signal for the parent's death to the thread that
	// starts the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p := &process{Cmd: exec.Command(cmd.path, cmd.args[1:]...), sharesTerminal: hasTerminal(), warn: warn}
	p.Args[0] = cmd.args[0]
	p.Stdin, p.Stdout, p.Stderr = os.Stdin, os.Stdout, os.Stderr
	p.Env = append(os.Environ(), env...)
	p.SysProcAttr = attributes(!p.sharesTerminal)
	defer sigs.passStops(!p.sharesTerminal)()
	p.orphans = adopt()
	defer p.orphans.stop()
	if err := p.Start(); err != nil {
		return 0, Untold, notRun(cmd.args[0], err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Wait() }()
	told, err = p.attend(ended, newWatch(lock, l), sigs)
	p.check(p.orphans.left())
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, told, fmt.Errorf("wait for %q: %w", cmd.args[0], err)
	}
	return status(p.ProcessState), told, nil
}

// status is the exit status as a shell gives it.
func status(state *os.ProcessState) int {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}

// process is a command that runs.
type process struct {
	*exec.Cmd
	// sharesTerminal: it is in our own process group, so that the terminal's
	// signals reach it without us. Otherwise it leads a group.
	sharesTerminal bool
	orphans        *orphans
	warn           func(error)
	warned         map[string]bool
}

// attend passes signals on until the command has ended, and ends it with the lock.
func (p *process) attend(ended <-chan error, w *watch, sigs *Signals) (Reason, error) {
	defer w.stop()
	for {
		select {
		case err := <-ended:
			if w.told != Untold {
				p.check(p.sweep())
			}
			return w.told, err
		case <-p.orphans.died:
			p.orphans.reap(p.Process.Pid)
		case sig := <-sigs.ch:
			sigs.note(sig)
			if !p.sharesTerminal || !fromTerminal(sig) {
				p.check(p.signal(sig))
			}
		case <-w.done:
			if w.lose() {
				p.check(p.terminate())
			}
		case <-w.timer.C:
			switch w.look() {
			case termNow:
				p.check(p.terminate())
			case killNow:
				p.check(p.kill())
			}
		}
	}
}

// signal sends sig to the command itself. That it has ended is no error.
func (p *process) signal(sig os.Signal) error {
	err := p.Process.Signal(sig)
	if err == nil || errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return p.unreached(sig, err)
}

// unreached is that sig has not reached the command, or nobody of its process group.
func (p *process) unreached(sig os.Signal, err error) error {
	return fmt.Errorf("signal %v does not reach the command (pid %d), which may go on: %w", sig, p.Process.Pid, err)
}

// check warns of an error of which it has not warned.
func (p *process) check(err error) {
	if err == nil || p.warned[err.Error()] {
		return
	}
	if p.warned == nil {
		p.warned = map[string]bool{}
	}
	p.warned[err.Error()] = true
	p.warn(err)
}
