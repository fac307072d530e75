//go:build !linux

package program

import "syscall"

// attributes of a process: one whose input ends, ends.
func attributes() *syscall.SysProcAttr { return nil }
