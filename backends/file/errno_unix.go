//go:build unix

package file

import "syscall"

// notDirectory is the error when a file is where a directory should be.
var notDirectory error = syscall.ENOTDIR
