//go:build unix

package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// ownStderr is standard error under another number. When its reader is gone, a Go program that
// writes to descriptor 2 dies of SIGPIPE. coord lock would take its command with it.
func ownStderr() *os.File {
	fd, err := unix.FcntlInt(2, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return os.Stderr
	}
	return os.NewFile(uintptr(fd), "/dev/stderr")
}
