//go:build !linux

package demo

import "syscall"

// attributes of a worker.
func attributes() *syscall.SysProcAttr { return nil }
