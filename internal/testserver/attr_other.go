//go:build !linux

package testserver

import "syscall"

func childAttr() *syscall.SysProcAttr { return nil }
