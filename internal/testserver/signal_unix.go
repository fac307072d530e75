//go:build unix

package testserver

import "syscall"

func (p *process) stop() error   { return p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
