//go:build !unix

package postgres

import "syscall"

// alive cannot tell here: the first call on a connection that has died fails.
func alive(syscall.Conn) bool { return true }
