package server

import (
	"errors"
	"syscall"
	"time"
)

// cutAfter is how long a caller may acknowledge nothing of what was sent to it. A held stream, which sends something
// each second, so learns that the network is cut.
const cutAfter = 3 * time.Second

// userTimeout is TCP_USER_TIMEOUT, which package syscall does not have.
const userTimeout = 0x12

// bounded sets that for the connections of a listener: they have the options of its socket.
func bounded(_, _ string, c syscall.RawConn) error {
	var err error
	cerr := c.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, userTimeout, int(cutAfter.Milliseconds()))
	})
	return errors.Join(cerr, err)
}
