package testserver

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// MemcachedUser is who a memcached WithPassword knows.
const MemcachedUser = "coord"

// Memcached gives a memcached server. It keeps nothing over a restart, and so takes no
// Durable. WithPassword makes it ask for MemcachedUser and the password in the text
// protocol; WithTLS wants a binary that is built for it.
func Memcached(t testing.TB, opts ...Option) *Server {
	t.Helper()
	return start(t, kind{
		store:    "memcached",
		binaries: []string{"memcached"},
		args:     memcachedArgs,
		ready:    memcachedReady,
	}, opts)
}

func memcachedArgs(s *Server, port string) []string {
	if s.config.durable {
		s.t.Fatal("testserver: memcached keeps nothing: it cannot be Durable")
	}
	args := []string{"-l", "127.0.0.1", "-p", port, "-U", "0", "-m", "64"}
	if os.Getuid() == 0 {
		args = append(args, "-u", "root")
	}
	if s.config.tls {
		args = append(args, "-Z", "-o", "ssl_chain_cert="+s.TLS.CertFile, "-o", "ssl_key="+s.TLS.KeyFile,
			"-o", "ssl_ca_cert="+s.TLS.CAFile, "-o", "ssl_verify_mode=2")
	}
	if s.config.password != "" {
		file := filepath.Join(s.dir, "users")
		if err := os.WriteFile(file, []byte(MemcachedUser+":"+s.config.password+"\n"), 0o600); err != nil {
			s.t.Fatalf("testserver: %v", err)
		}
		args = append(args, "-Y", file)
	}
	return args
}

// memcachedReady: the server says its version. One that asks for a password is up too.
func memcachedReady(s *Server) error {
	conn, r, err := s.memcachedDial()
	if err != nil {
		return err
	}
	defer conn.Close()
	line, err := memcachedCall(conn, r, "version\r\n")
	switch {
	case err != nil:
		return err
	case strings.HasPrefix(line, "VERSION "), strings.HasPrefix(line, "CLIENT_ERROR unauthenticated"):
		return nil
	}
	return fmt.Errorf("reply %q", line)
}

// Stats are the counters of a memcached: cmd_get, cas_hits, incr_misses and so on.
func (s *Server) Stats() map[string]int64 {
	s.t.Helper()
	counts, err := s.memcachedStats()
	if err != nil {
		s.t.Fatalf("testserver: stats: %v", err)
	}
	return counts
}

func (s *Server) memcachedStats() (map[string]int64, error) {
	conn, r, err := s.memcachedDial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := s.memcachedLogin(conn, r); err != nil {
		return nil, err
	}
	line, err := memcachedCall(conn, r, "stats\r\n")
	counts := map[string]int64{}
	for ; err == nil && line != "END"; line, err = memcachedLine(r) {
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "STAT "), " ")
		if !ok {
			return nil, fmt.Errorf("reply %q", line)
		}
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			counts[name] = n
		}
	}
	return counts, err
}

// Text makes commands of memcached's text protocol on a connection of its own, and gives
// the line that answers each. A command with a data block is one string, "\r\n" between.
func (s *Server) Text(commands ...string) []string {
	s.t.Helper()
	lines, err := s.memcachedText(commands)
	if err != nil {
		s.t.Fatalf("testserver: %q: %v", commands, err)
	}
	return lines
}

func (s *Server) memcachedText(commands []string) ([]string, error) {
	conn, r, err := s.memcachedDial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := s.memcachedLogin(conn, r); err != nil {
		return nil, err
	}
	var lines []string
	for _, c := range commands {
		line, err := memcachedCall(conn, r, c+"\r\n")
		if err != nil {
			return lines, err
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// memcachedLogin is a set of any key, whose data are user and password.
func (s *Server) memcachedLogin(w io.Writer, r *bufio.Reader) error {
	if s.config.password == "" {
		return nil
	}
	login := MemcachedUser + " " + s.config.password
	line, err := memcachedCall(w, r, fmt.Sprintf("set login 0 0 %d\r\n%s\r\n", len(login), login))
	if err == nil && line != "STORED" {
		err = errors.New(line)
	}
	return err
}

func (s *Server) memcachedDial() (net.Conn, *bufio.Reader, error) {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	var conn net.Conn
	var err error
	if s.TLS != nil {
		conn, err = tls.DialWithDialer(dialer, "tcp", s.Addr, s.TLS.Config)
	} else {
		conn, err = dialer.Dial("tcp", s.Addr)
	}
	if err != nil {
		return nil, nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, bufio.NewReader(conn), nil
}

func memcachedCall(w io.Writer, r *bufio.Reader, command string) (string, error) {
	if _, err := io.WriteString(w, command); err != nil {
		return "", err
	}
	return memcachedLine(r)
}

func memcachedLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	return strings.TrimRight(line, "\r\n"), err
}

// Lines makes one command of the text protocol that is answered by lines and END, and gives the
// lines.
func (s *Server) Lines(command string) (lines []string) {
	s.t.Helper()
	conn, r, err := s.memcachedDial()
	if err != nil {
		s.t.Fatalf("testserver: %v", err)
	}
	defer conn.Close()
	if err := s.memcachedLogin(conn, r); err != nil {
		s.t.Fatalf("testserver: %v", err)
	}
	line, err := memcachedCall(conn, r, command+"\r\n")
	for ; err == nil && line != "END"; line, err = memcachedLine(r) {
		lines = append(lines, line)
	}
	if err != nil {
		s.t.Fatalf("testserver: %s: %v", command, err)
	}
	return lines
}
