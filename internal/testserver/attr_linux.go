package testserver

import "syscall"

// childAttr makes the kernel kill the child when its parent dies, so that an
// interrupted test run leaves no server behind.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
