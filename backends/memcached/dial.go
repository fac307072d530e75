package memcached

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
)

// errLogin: the server has not accepted user and password. The text has neither.
var errLogin = errors.New("wrong user or password: the server refused them")

// dialer makes connections of the client of Open.
type dialer struct {
	tls            *tls.Config // nil: plain
	user, password string
}

func (d dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := d.connect(ctx, network, addr)
	if err != nil || d.user == "" && d.password == "" {
		return conn, err
	}
	if err := d.login(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func (d dialer) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	if d.tls == nil {
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	config := d.tls
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		config = config.Clone()
		config.ServerName = host
	}
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, network, addr)
	if err != nil {
		// Whatever failed, nothing of a call was sent.
		return nil, &net.OpError{Op: "dial", Net: network, Err: fmt.Errorf("TLS handshake: %w", err)}
	}
	return conn, nil
}

// login is how memcached's text protocol does it: the first set on a connection, of any key, has
// user and password for data.
func (d dialer) login(ctx context.Context, conn net.Conn) error {
	var line string
	err := within(ctx, conn, func() (err error) {
		line, err = command(conn, bufio.NewReader(conn), fmt.Sprintf("set login 0 0 %d\r\n%s %s\r\n", len(d.user)+1+len(d.password), d.user, d.password))
		return err
	})
	switch {
	case err != nil:
		return &net.OpError{Op: "dial", Net: "tcp", Err: err}
	case line != "STORED":
		return errLogin
	}
	return nil
}

// within runs fn, which uses conn, until ctx ends at the latest, by deadline or cancellation.
func within(ctx context.Context, conn net.Conn, fn func() error) error {
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		// A connection that cannot be told is broken already.
		_ = conn.SetDeadline(past)
	})
	err := fn()
	if !stop() {
		<-ended
		if err == nil {
			err = ctx.Err()
		}
	}
	return err
}

// command sends a command and gives the first line of the answer.
func command(conn net.Conn, r *bufio.Reader, text string) (string, error) {
	if _, err := conn.Write([]byte(text)); err != nil {
		return "", err
	}
	line, err := r.ReadString('\n')
	return strings.TrimRight(line, "\r\n"), err
}
