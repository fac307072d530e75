//go:build unix

package memcached

import (
	"crypto/tls"
	"net"
	"syscall"
)

// alive looks whether an idle connection has been closed by the other side. It takes nothing from it
// and does not wait.
func alive(conn net.Conn) bool {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	open := false
	// Control, and not Read: the deadline of the last command has passed. The socket does not block.
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
		// Nothing to read, as it should be. Who says something unasked is taking leave.
		open = err == syscall.EAGAIN || err == syscall.EINTR
	})
	return err == nil && open
}
