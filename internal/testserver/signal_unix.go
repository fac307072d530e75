//go:build unix

package testserver

import (
	"os"
	"syscall"
)

func (p *process) stop() error   { return p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// lockFile takes a lock that ends with the process. It fails if another has it.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
