//go:build unix

package file

import (
	"errors"
	"syscall"
)

// notDirectory is the error when a file is where a directory should be.
var notDirectory error = syscall.ENOTDIR

// outOfDescriptors reports whether the process, or the machine, cannot open
// another file.
func outOfDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
