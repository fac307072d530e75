//go:build unix && !linux

package child

import "syscall"

// attributes of the command's process. The kernel cannot tell it of our death.
func attributes(ownGroup bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: ownGroup}
}
