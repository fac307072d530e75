package redis

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// dialFunc is what go-redis calls to connect.
type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// dialer makes connections of the client of a URL.
func (t *target) dialer() dialFunc {
	var dial dialFunc
	if t.socket != "" {
		dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: t.options.DialTimeout}).DialContext(ctx, "unix", t.socket)
		}
	}
	return quiet(func(ctx context.Context, network, addr string) (net.Conn, error) {
		return dialTLS(ctx, dial, &t.options, network, addr)
	})
}

// dialTLS makes a connection, with TLS if there is to be TLS. dial is nil for go-redis' own. Whatever fails, nothing of
// a command was sent.
func dialTLS(ctx context.Context, dial dialFunc, o *redis.UniversalOptions, network, addr string) (net.Conn, error) {
	if dial == nil {
		dial = redis.NewDialer(&redis.Options{DialTimeout: o.DialTimeout})
	}
	nc, err := dial(ctx, network, addr)
	if err != nil || o.TLSConfig == nil {
		return nc, err
	}
	config := o.TLSConfig.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(addr)
	}
	secure := tls.Client(nc, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = nc.Close()
		return nil, &net.OpError{Op: "dial", Net: network, Err: fmt.Errorf("TLS handshake: %w", err)}
	}
	if raw, ok := nc.(syscall.Conn); ok {
		return secured{secure, raw}, nil
	}
	return secure, nil
}

// secured lets go-redis see whether the server has closed an idle connection with TLS: a command on one that is closed
// fails. Bytes that nobody waits for have go-redis drop the connection too.
type secured struct {
	*tls.Conn
	raw syscall.Conn
}

func (s secured) SyscallConn() (syscall.RawConn, error) { return s.raw.SyscallConn() }

// quiet makes dial give, in place of an error, a connection on which everything fails with that error. go-redis writes
// a dial that failed to a logger which all clients of a program share, and which is the application's to set. It does
// not write what fails on a connection: that comes back from the command, and there it is told.
func quiet(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := dial(ctx, network, addr)
		if err != nil {
			return unconnected{fmt.Errorf("connect: %w", err)}, nil // go-redis unwraps it once
		}
		return nc, nil
	}
}

// unconnected stands for a connection that was not made.
type unconnected struct{ err error }

// SyscallConn is what go-redis calls before it uses a connection again, and has it drop this one: whoever asked for it
// may have left before the dial failed, and the server may be back.
func (u unconnected) SyscallConn() (syscall.RawConn, error) { return nil, u.err }

func (u unconnected) Read([]byte) (int, error)       { return 0, u.err }
func (u unconnected) Write([]byte) (int, error)      { return 0, u.err }
func (unconnected) Close() error                     { return nil }
func (unconnected) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (unconnected) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (unconnected) SetDeadline(time.Time) error      { return nil }
func (unconnected) SetReadDeadline(time.Time) error  { return nil }
func (unconnected) SetWriteDeadline(time.Time) error { return nil }
