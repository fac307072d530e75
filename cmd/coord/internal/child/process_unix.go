//go:build unix

package child

import (
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
// foreground is taken for the terminal's.
func fromTerminal(sig os.Signal) bool {
	if sig != syscall.SIGINT && sig != syscall.SIGQUIT && sig != syscall.SIGHUP {
		return false
	}
	fd, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return sig == syscall.SIGHUP // it has hung up
	}
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	_ = unix.Close(fd) // nothing was written
	if sig == syscall.SIGHUP {
		return err != nil
	}
	return err == nil && group == unix.Getpgrp()
}

// terminate asks the command to end, with its group where it has one. A stopped
// process sees the request only when it continues.
func (p *process) terminate() { p.signalAll(syscall.SIGTERM, syscall.SIGCONT) }

// kill ends the command, with its group where it has one.
func (p *process) kill() { p.signalAll(syscall.SIGKILL) }

func (p *process) signalAll(sigs ...syscall.Signal) {
	for _, sig := range sigs {
		// Both fail only if nobody is left to be signalled.
		if p.sharesTerminal {
			_ = p.Process.Signal(sig)
		} else {
			_ = syscall.Kill(-p.Process.Pid, sig)
		}
	}
}

// sweep kills what a command that was told to end has left behind in its group.
func (p *process) sweep() {
	if !p.sharesTerminal {
		_ = syscall.Kill(-p.Process.Pid, syscall.SIGKILL) // most often there is nobody
	}
}
