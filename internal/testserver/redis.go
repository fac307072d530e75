package testserver

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Redis gives a Redis (or Valkey) server.
func Redis(t testing.TB, opts ...Option) *Server {
	t.Helper()
	return start(t, kind{
		store:    "redis",
		binaries: []string{"redis-server", "valkey-server"},
		args:     redisArgs,
		ready:    redisReady,
	}, opts)
}

func redisArgs(s *Server, port string) []string {
	args := []string{"--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--daemonize", "no"}
	if s.config.tls {
		args = append(args, "--port", "0", "--tls-port", port,
			"--tls-ca-cert-file", s.TLS.CAFile, "--tls-cert-file", s.TLS.CertFile, "--tls-key-file", s.TLS.KeyFile)
	} else {
		args = append(args, "--port", port)
	}
	if s.config.durable {
		args = append(args, "--appendonly", "yes", "--appendfsync", "always")
	} else {
		args = append(args, "--appendonly", "no")
	}
	if s.config.password != "" {
		args = append(args, "--requirepass", s.config.password)
	}
	return args
}

// redisReady: the server answers PING. One that asks for a password is up too.
func redisReady(s *Server) error {
	_, err := s.redisDo("PING")
	if err != nil && strings.HasPrefix(err.Error(), "NOAUTH") {
		return nil
	}
	return err
}

// Commands is how often the server has run each command since it started, in
// lower case, those within scripts included. Commands made by this package do
// not count.
func (s *Server) Commands() map[string]int64 {
	s.t.Helper()
	reply, err := s.redisDo("INFO", "commandstats")
	if err != nil {
		s.t.Fatalf("testserver: %v", err)
	}
	counts := map[string]int64{}
	for line := range strings.Lines(reply) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		digits, _, _ := strings.Cut(rest, ",")
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			s.t.Fatalf("testserver: commandstats: %q", line)
		}
		counts[name] = n
	}
	for _, own := range []string{"info", "ping", "auth"} {
		delete(counts, own)
	}
	return counts
}

// redisDo makes one command on a connection of its own.
func (s *Server) redisDo(args ...string) (string, error) {
	dialer := &net.Dialer{Timeout: time.Second}
	var conn net.Conn
	var err error
	if s.TLS != nil {
		conn, err = tls.DialWithDialer(dialer, "tcp", s.Addr, s.TLS.Config)
	} else {
		conn, err = dialer.Dial("tcp", s.Addr)
	}
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return "", err
	}
	r := bufio.NewReader(conn)
	if s.config.password != "" {
		if _, err := redisCall(conn, r, "AUTH", s.config.password); err != nil {
			return "", err
		}
	}
	return redisCall(conn, r, args...)
}

// redisCall speaks as much of Redis' protocol as this package needs: replies
// that are a line or one string.
func redisCall(w io.Writer, r *bufio.Reader, args ...string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return "", err
	}
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return "", errors.New("empty reply")
	}
	switch line[0] {
	case '+', ':':
		return line[1:], nil
	case '-':
		return "", errors.New(line[1:])
	case '$':
		n, err := strconv.Atoi(line[1:])
		if err != nil || n < 0 {
			return "", fmt.Errorf("reply %q", line)
		}
		body := make([]byte, n)
		_, err = io.ReadFull(r, body)
		return string(body), err
	default:
		return "", fmt.Errorf("reply %q", line)
	}
}
