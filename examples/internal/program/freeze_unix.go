//go:build unix

package program

import "syscall"

// Freeze stops the process with kill -STOP, as a machine does that is suspended.
func (s *Process) Freeze() error { return s.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw lets a frozen process go on, which has noticed nothing.
func (s *Process) Thaw() error { return s.cmd.Process.Signal(syscall.SIGCONT) }
