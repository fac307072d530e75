package testserver

import (
	"fmt"
	"net"
	"os"
	"testing"
	"time"
)

// PostgresReplica gives a server that follows primary, which was started by [Postgres], by streaming replication. Clients
// may only read there, until it is promoted.
func PostgresReplica(t testing.TB, primary *Server, opts ...Option) *Server {
	t.Helper()
	primary.owned()
	s := start(t, postgresKind(func(s *Server, binary string) error { return s.copyOf(primary, binary) }), append(opts, func(c *config) {
		c.password = primary.config.password
	}))
	primary.awaitReplicas(1)
	return s
}

// copyOf makes the data directory out of that of a server that runs.
func (s *Server) copyOf(primary *Server, binary string) error {
	host, port, err := net.SplitHostPort(primary.Addr)
	if err != nil {
		return err
	}
	from := fmt.Sprintf("host=%s port=%s user=%s application_name=replica", host, port, PostgresUser)
	_, err = s.postgresRun(binary, "pg_basebackup", "-D", s.dataDir(), "-d", from, "-R", "-X", "stream", "--checkpoint=fast", "--no-sync")
	return err
}

// Follow makes a PostgreSQL server a replica of primary, whatever it was. It loses what it has.
func (s *Server) Follow(primary *Server) {
	s.t.Helper()
	s.Kill()
	err := os.RemoveAll(s.dataDir())
	if err == nil {
		err = s.copyOf(primary, find(s.kind.binaries))
	}
	if err != nil {
		s.t.Fatalf("testserver: follow: %v", err)
	}
	s.Restart()
	primary.awaitReplicas(1)
}

// Synchronous has a PostgreSQL server confirm a commit when a replica has it, or again without one.
func (s *Server) Synchronous(on bool) {
	s.t.Helper()
	names := ""
	if on {
		names = "*"
	}
	for _, sql := range []string{"ALTER SYSTEM SET synchronous_standby_names = '" + names + "'", "SELECT pg_reload_conf()"} {
		if _, err := s.postgresDo(sql); err != nil {
			s.t.Fatalf("testserver: %v", err)
		}
	}
	s.awaitSQL("SHOW synchronous_standby_names", names)
	if on {
		s.awaitSQL("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'", "1")
	}
}

// Promote makes a PostgreSQL replica a primary. It returns when that takes writes.
func (s *Server) Promote() {
	s.t.Helper()
	if out, err := s.postgresDo("SELECT pg_promote(true, 60)"); err != nil || out != "t" {
		s.t.Fatalf("testserver: promote: %s, %v", out, err)
	}
	s.awaitSQL("SELECT pg_is_in_recovery()", "f")
}

func (s *Server) awaitReplicas(n int) {
	s.t.Helper()
	s.awaitSQL("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'", fmt.Sprint(n))
}

// awaitSQL waits until a statement gives what is wanted.
func (s *Server) awaitSQL(sql, want string) {
	s.t.Helper()
	for deadline := time.Now().Add(readyWithin); ; time.Sleep(5 * time.Millisecond) {
		out, err := s.postgresDo(sql)
		if err == nil && out == want {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("testserver: %s gives %q, %v, after %v: want %s", sql, out, err, readyWithin, want)
		}
	}
}

// postgresDo runs a statement as the superuser.
func (s *Server) postgresDo(sql string) (string, error) {
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return "", err
	}
	return s.postgresRun(find(s.kind.binaries), "psql", "-h", host, "-p", port, "-U", PostgresUser, "-d", PostgresUser, "-XAtc", sql)
}
