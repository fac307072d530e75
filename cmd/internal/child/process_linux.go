package child

import "syscall"

// attributes of the command's process. If this process dies, be it by KILL, the
// kernel kills the command: nobody would renew its lock.
func attributes(ownGroup bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: ownGroup, Pdeathsig: syscall.SIGKILL}
}
