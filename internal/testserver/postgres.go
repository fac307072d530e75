package testserver

import (
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// PostgresUser is the superuser of a PostgreSQL server, and the name of the database to use.
const PostgresUser = "postgres"

// Postgres gives a PostgreSQL server with one user, [PostgresUser], who needs no password unless the server was
// started WithPassword. It always keeps its data over Restart.
func Postgres(t testing.TB, opts ...Option) *Server {
	t.Helper()
	return start(t, postgresKind(postgresSetUp), opts)
}

// PostgresURL names a server, or several, to user. It asks for no TLS: with the default, prefer, pgx connects twice to a
// server that has none, and each connection is a process of the server.
func PostgresURL(user string, addrs ...string) string {
	return "postgres://" + user + "@" + strings.Join(addrs, ",") + "/postgres?sslmode=disable"
}

// postgresKind has the server's data directory made by setUp.
func postgresKind(setUp func(s *Server, binary string) error) kind {
	return kind{
		store: "postgres", binaries: postgresBinaries(), args: postgresArgs, ready: postgresReady, setUp: setUp,
		tree: true, ownUser: true,
	}
}

// postgresBinaries are where packages put the server. Debian leaves it off PATH.
func postgresBinaries() []string {
	binaries := []string{"postgres"}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin/postgres", "/opt/homebrew/opt/postgresql@*/bin/postgres", "/usr/local/opt/postgresql@*/bin/postgres"} {
		paths, _ := filepath.Glob(pattern) // the pattern is well-formed
		slices.Reverse(paths)
		binaries = append(binaries, paths...)
	}
	return binaries
}

// postgresRun runs a program that comes with the server, as the server's user.
func (s *Server) postgresRun(binary, name string, args ...string) (string, error) {
	binary, err := filepath.EvalSymlinks(binary)
	if err != nil {
		return "", err
	}
	cmd := exec.Command(filepath.Join(filepath.Dir(binary), name), args...)
	cmd.Dir, cmd.SysProcAttr = s.dir, s.attr
	cmd.Env = append(os.Environ(), "PGPASSWORD="+s.config.password, "PGCONNECT_TIMEOUT=60")
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", cmd.Path, err, lastOf(string(out)))
	}
	return strings.TrimSpace(string(out)), err
}

func postgresArgs(s *Server, port string) []string {
	args := []string{
		"-D", s.dataDir(), "-h", "127.0.0.1", "-p", port, "-k", s.dataDir(),
		"-c", "max_connections=500", "-c", "shared_buffers=32MB",
	}
	if s.config.tls {
		args = append(args, "-c", "ssl=on", "-c", "ssl_ca_file="+s.TLS.CAFile, "-c", "ssl_cert_file="+s.TLS.CertFile, "-c", "ssl_key_file="+s.TLS.KeyFile)
	}
	return args
}

// postgresReady: the server answers a greeting with a request for authentication, and not with an error, as it does while
// it starts.
func postgresReady(s *Server) error {
	conn, err := net.DialTimeout("tcp", s.Addr, 10*time.Second)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // what it says has been read
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	if s.TLS != nil {
		if conn, err = s.postgresTLS(conn); err != nil {
			return err
		}
	}
	const version = 3 << 16
	text := "user\x00" + PostgresUser + "\x00database\x00" + PostgresUser + "\x00\x00"
	hello := binary.BigEndian.AppendUint32(nil, uint32(8+len(text)))
	hello = append(binary.BigEndian.AppendUint32(hello, version), text...)
	if _, err := conn.Write(hello); err != nil {
		return err
	}
	kind, err := readByte(conn)
	if err == nil && kind != 'R' {
		err = fmt.Errorf("it answers with message %q", kind)
	}
	return err
}

// postgresTLS asks the server to speak TLS.
func (s *Server) postgresTLS(conn net.Conn) (net.Conn, error) {
	const length, request = 8, 80877103
	if _, err := conn.Write(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, length), request)); err != nil {
		return conn, err
	}
	answer, err := readByte(conn)
	if err != nil {
		return conn, err
	}
	if answer != 'S' {
		return conn, fmt.Errorf("it answers %q to a request for TLS", answer)
	}
	config := s.TLS.Config.Clone()
	config.ServerName = "localhost"
	return tls.Client(conn, config), nil
}

func readByte(r io.Reader) (byte, error) {
	var b [1]byte
	_, err := io.ReadFull(r, b[:])
	return b[0], err
}
