//go:build unix

package postgres

import "syscall"

// alive looks whether an idle connection has been closed by the other side. It takes nothing from it and does not wait.
func alive(conn syscall.Conn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	open := false
	// Control, and not Read: the socket does not block.
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
		// Nothing to read, as it should be. A server that says something unasked is taking leave.
		open = err == syscall.EAGAIN || err == syscall.EINTR
	})
	return err == nil && open
}
