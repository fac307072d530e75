package server

import (
	"errors"
	"net"
	"path/filepath"
	"syscall"
	"testing"
)

// Connections end soon on a network that is cut.
func TestUserTimeout(t *testing.T) {
	k := start(t, "serve: {listen: '127.0.0.1:0'}")
	l, err := k.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	caller, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Close()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var got int
	if cerr := raw.Control(func(fd uintptr) { got, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, userTimeout) }); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
	if got != int(cutAfter.Milliseconds()) {
		t.Errorf("TCP_USER_TIMEOUT is %dms", got)
	}
}

// A socket whose owner is busy is not taken from it.
func TestBusySocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	waiting, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	k := start(t, "serve: {listen: 'unix:"+path+"'}")
	if l, err := k.Listen(t.Context()); err == nil {
		l.Close()
		t.Error("the socket of another process was taken")
	}
}
