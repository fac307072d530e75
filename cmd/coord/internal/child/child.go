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

// Run runs cmd with env added to the environment and gives its exit status; 128+n
// if signal n killed it. Signals that come to this process are passed on.
//
// A command does not outlive lock. When the lease cannot be renewed, the command
// gets TERM grace before the lease ends, and KILL, with all of its process group,
// when it ends. When the lock is found lost, it gets TERM at once and KILL after
// grace, or when the lease ends if that is sooner. Either way lost is true. Of a lease
// that is shorter than was asked for, grace is a third at most.
//
// It is a [*NotRunError] if cmd was not started.
func Run(cmd Command, env []string, lock Lock, grace time.Duration, sigs *Signals) (code int, lost bool, err error) {
	// The kernel ties the signal for the parent's death to the thread that
	// starts the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p := &process{Cmd: exec.Command(cmd.path, cmd.args[1:]...), sharesTerminal: hasTerminal()}
	p.Args[0] = cmd.args[0]
	p.Stdin, p.Stdout, p.Stderr = os.Stdin, os.Stdout, os.Stderr
	p.Env = append(os.Environ(), env...)
	p.SysProcAttr = attributes(!p.sharesTerminal)
	sigs.passStops(!p.sharesTerminal)
	if err := p.Start(); err != nil {
		return 0, false, notRun(cmd.args[0], err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Wait() }()
	lost, err = p.attend(ended, watch{lock: lock, grace: grace}, sigs)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, lost, fmt.Errorf("wait for %q: %w", cmd.args[0], err)
	}
	return status(p.ProcessState), lost, nil
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
}

// attend passes signals on until the command has ended, and ends it with the lock.
func (p *process) attend(ended <-chan error, w watch, sigs *Signals) (lost bool, err error) {
	w.arm()
	defer w.stop()
	for {
		select {
		case err := <-ended:
			if w.lost {
				p.sweep()
			}
			return w.lost, err
		case sig := <-sigs.ch:
			if !p.sharesTerminal || !fromTerminal(sig) {
				// It fails only if the command has just ended.
				_ = p.Process.Signal(sig)
			}
		case <-w.done:
			if w.lose() {
				p.terminate()
			}
		case <-w.timer.C:
			switch w.look() {
			case termNow:
				p.terminate()
			case killNow:
				p.kill()
			}
		}
	}
}
