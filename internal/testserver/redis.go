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
	args := []string{"--bind", s.hostAddr(), "--dir", s.dir, "--save", "", "--daemonize", "no"}
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
func (s *Server) redisDo(args ...string) (string, error) { return s.redisAll(args) }

// redisAll makes commands on a connection of their own, up to the first error, and
// gives the last reply.
func (s *Server) redisAll(commands ...[]string) (reply string, err error) {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	var conn net.Conn
	if s.TLS != nil {
		conn, err = tls.DialWithDialer(dialer, "tcp", s.Addr, s.TLS.Config)
	} else {
		conn, err = dialer.Dial("tcp", s.Addr)
	}
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return "", err
	}
	r := bufio.NewReader(conn)
	if s.config.password != "" {
		if _, err := redisCall(conn, r, "AUTH", s.config.password); err != nil {
			return "", err
		}
	}
	for _, args := range commands {
		if reply, err = redisCall(conn, r, args...); err != nil {
			return "", err
		}
	}
	return reply, nil
}

// redisCall speaks as much of Redis' protocol as this package needs. The elements of
// an array come one to a line.
func redisCall(w io.Writer, r *bufio.Reader, args ...string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return "", err
	}
	return redisReply(r)
}

func redisReply(r *bufio.Reader) (string, error) {
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
	case '$', '*':
	default:
		return "", fmt.Errorf("reply %q", line)
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil || n < 0 {
		return "", fmt.Errorf("reply %q", line)
	}
	if line[0] == '$' {
		body := make([]byte, n+len("\r\n"))
		_, err = io.ReadFull(r, body)
		return string(body[:n]), err
	}
	elements := make([]string, n)
	for i := range elements {
		if elements[i], err = redisReply(r); err != nil {
			return "", err
		}
	}
	return strings.Join(elements, "\n"), nil
}
