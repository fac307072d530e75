//go:build !unix

package testserver

import "syscall"

func attrAs(string, string) (*syscall.SysProcAttr, error) { return childAttr(), nil }
