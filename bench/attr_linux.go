package main

import "syscall"

// workerAttr makes the kernel kill a worker whose parent has died.
func workerAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
