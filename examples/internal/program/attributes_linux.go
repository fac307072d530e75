package program

import "syscall"

// attributes of a process: it ends with the one that started it, however that ends.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
