package testserver

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// PostgresUser is the superuser of a PostgreSQL server, and the name of the database to use.
const PostgresUser = "postgres"

// Postgres gives a PostgreSQL server with one user, [PostgresUser], who needs no password unless the server was
// started WithPassword. It always keeps its data over Restart. It does not take WithTLS.
func Postgres(t testing.TB, opts ...Option) *Server {
	t.Helper()
	return start(t, kind{
		store:    "postgres",
		binaries: postgresBinaries(),
		args:     postgresArgs,
		ready:    postgresReady,
		setUp:    postgresSetUp,
		tree:     true,
		ownUser:  true,
	}, opts)
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

// postgresSetUp makes the data directory.
func postgresSetUp(s *Server, binary string) error {
	if s.config.tls {
		s.t.Fatal("testserver: postgres does not take WithTLS")
	}
	auth := []string{"-A", "trust"}
	if s.config.password != "" {
		file := filepath.Join(s.dir, "password")
		if err := os.WriteFile(file, []byte(s.config.password+"\n"), 0o644); err != nil {
			return err
		}
		auth = []string{"-A", "scram-sha-256", "--pwfile", file}
	}
	args := append([]string{"-D", s.dataDir(), "-U", PostgresUser, "-E", "UTF8", "--locale=C", "--no-sync"}, auth...)
	binary, err := filepath.EvalSymlinks(binary)
	if err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(filepath.Dir(binary), "initdb"), args...)
	cmd.Dir, cmd.SysProcAttr = s.dir, s.attr
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd.Path, err, lastOf(string(out)))
	}
	return nil
}

func (s *Server) dataDir() string { return filepath.Join(s.dir, "data") }

func postgresArgs(s *Server, port string) []string {
	return []string{
		"-D", s.dataDir(), "-h", "127.0.0.1", "-p", port, "-k", s.dataDir(),
		"-c", "max_connections=500", "-c", "shared_buffers=32MB",
	}
}

// postgresReady: the server answers a greeting with a request for authentication, and not with an error, as it does while
// it starts.
func postgresReady(s *Server) error {
	conn, err := net.DialTimeout("tcp", s.Addr, 10*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	const version = 3 << 16
	text := "user\x00" + PostgresUser + "\x00database\x00" + PostgresUser + "\x00\x00"
	hello := binary.BigEndian.AppendUint32(nil, uint32(8+len(text)))
	hello = append(binary.BigEndian.AppendUint32(hello, version), text...)
	if _, err := conn.Write(hello); err != nil {
		return err
	}
	var kind [1]byte
	if _, err := io.ReadFull(conn, kind[:]); err != nil {
		return err
	}
	if kind[0] != 'R' {
		return fmt.Errorf("it answers with message %q", kind[0])
	}
	return nil
}
