//go:build unix

package testserver

import (
	"errors"
	"os"
	"syscall"
)

// stop stops the process, and then its children: a process that is stopped starts no more of them.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return p.eachChild(func(pid int) error {
		if err := signalChild(pid, syscall.SIGSTOP); err != nil {
			return err
		}
		return awaitStopped(pid)
	})
}

func (p *process) resume() error {
	err := p.eachChild(func(pid int) error { return signalChild(pid, syscall.SIGCONT) })
	return errors.Join(err, p.cmd.Process.Signal(syscall.SIGCONT))
}

// killChildren kills the children of a process that is stopped.
func (p *process) killChildren() {
	// The process itself is killed next, whatever comes of this.
	_ = p.eachChild(func(pid int) error {
		if err := signalChild(pid, syscall.SIGKILL); err != nil {
			return err
		}
		return awaitDead(pid)
	})
}

// eachChild calls fn for the children of a server that consists of several processes.
func (p *process) eachChild(fn func(pid int) error) error {
	if !p.tree {
		return nil
	}
	if err := awaitStopped(p.cmd.Process.Pid); err != nil {
		return err
	}
	for _, pid := range childrenOf(p.cmd.Process.Pid) {
		if err := fn(pid); err != nil {
			return err
		}
	}
	return nil
}

// signalChild sends a signal, unless the process has ended.
func signalChild(pid int, sig syscall.Signal) error {
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// lockFile takes a lock that ends with the process. It fails if another has it.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
