//go:build unix

package child

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// passed are the signals that a command gets when they come to us.
var passed = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM,
}

var stops = []os.Signal{syscall.SIGTSTP, syscall.SIGCONT}

// The command is put into a process group of its own, which can be killed as a whole,
// unless there is a terminal: there it stays in ours, so that reading from
// the terminal, Ctrl-C, Ctrl-Z and pipelines work as without us.

// hasTerminal reports whether this process has a controlling terminal.
func hasTerminal() bool {
	fd, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	return unix.Close(fd) == nil
}

// fromTerminal reports whether the terminal has sent sig, and so to the command
// as well: to its foreground group on a key, to all when it hangs up. The
// signal itself does not tell, so that one sent by hand to a process in the
// foreground is taken for the terminal's. Of a hang-up the kernel tells the leader of a
// session alone, which we are under ssh -t: then it is ours to pass on.
func fromTerminal(sig os.Signal) bool {
	if sig != syscall.SIGINT && sig != syscall.SIGQUIT && sig != syscall.SIGHUP {
		return false
	}
	fd, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return sig == syscall.SIGHUP && !leadsSession() // it has hung up
	}
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	_ = unix.Close(fd) // nothing was written
	if sig == syscall.SIGHUP {
		return err != nil
	}
	return err == nil && group == unix.Getpgrp()
}

// leadsSession reports whether this process leads its session.
func leadsSession() bool {
	id, err := unix.Getsid(0)
	return err == nil && id == os.Getpid()
}

// terminate asks the command to end, with its group where it has one. A stopped
// process sees the request only when it continues.
func (p *process) terminate() error { return p.signalAll(syscall.SIGTERM, syscall.SIGCONT) }

// kill ends the command, with its group where it has one.
func (p *process) kill() error { return p.signalAll(syscall.SIGKILL) }

// signalAll sends signals to the command and to the group that it was started in.
func (p *process) signalAll(sigs ...syscall.Signal) (err error) {
	for _, sig := range sigs {
		err = errors.Join(err, p.signalGroup(sig))
	}
	return err
}

// signalGroup sends one signal, to each process once. A command may have left its group, and
// the kernel reports no error when it may signal only some of a group: so the command itself is
// asked about too.
func (p *process) signalGroup(sig syscall.Signal) error {
	if p.sharesTerminal {
		return p.signal(sig)
	}
	group, err := unix.Getpgid(p.Process.Pid)
	ended := err != nil // others of its group may live
	if err := p.killGroup(sig); err != nil || ended {
		return err
	}
	if group != p.Process.Pid {
		return p.signal(sig)
	}
	if err := p.Process.Signal(syscall.Signal(0)); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return p.unreached(sig, err)
	}
	return nil
}

// killGroup sends a signal to the group that the command was started in. That nobody is left there
// is no error.
func (p *process) killGroup(sig syscall.Signal) error {
	if err := syscall.Kill(-p.Process.Pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return p.unreached(sig, err)
	}
	return nil
}

// sweep kills what a command that was told to end has left behind in its group.
func (p *process) sweep() error {
	if p.sharesTerminal {
		return nil
	}
	return p.killGroup(syscall.SIGKILL) // most often there is nobody
}
