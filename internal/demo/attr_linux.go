package demo

import "syscall"

// attributes of a worker: a paused one does not see that its input has ended.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
