package testserver

import (
	"net"
	"testing"
)

// A replica has what its primary has, takes over, and can be followed by the former primary.
func TestNightlyPostgresReplica(t *testing.T) {
	t.Parallel()
	first := Postgres(t, WithPassword("secret"))
	second := PostgresReplica(t, first)
	first.Synchronous(true)
	do := func(s *Server, sql, want string) {
		t.Helper()
		if out, err := s.postgresDo(sql); err != nil || out != want {
			t.Errorf("%s: %q, %v, want %q", sql, out, err, want)
		}
	}
	do(first, "CREATE TABLE t AS SELECT 1 AS n", "SELECT 1")
	second.awaitSQL("SELECT n FROM t", "1")
	if _, err := second.postgresDo("INSERT INTO t VALUES (2)"); err == nil {
		t.Error("a replica takes writes")
	}
	first.Kill()
	second.Promote()
	do(second, "INSERT INTO t VALUES (3)", "INSERT 0 1")
	first.Follow(second)
	second.Synchronous(true)
	do(second, "INSERT INTO t VALUES (4)", "INSERT 0 1")
	first.awaitSQL("SELECT sum(n) FROM t", "8")
	second.Synchronous(false)
	first.Kill()
	do(second, "INSERT INTO t VALUES (5)", "INSERT 0 1")
}

func TestPostgresTLS(t *testing.T) {
	t.Parallel()
	s := Postgres(t, WithTLS(), WithPassword("secret"))
	s.Restart()
	plain := *s
	plain.TLS = nil
	if err := postgresReady(&plain); err == nil {
		t.Error("it answers without TLS")
	}
}

func TestPgBouncer(t *testing.T) {
	t.Parallel()
	s := Postgres(t)
	pooler := PgBouncer(t, s)
	if out, err := pooler.postgresRun(find(s.kind.binaries), "psql", "-h", "127.0.0.1", "-p", portOf(t, pooler), "-U", PostgresUser, "-d", PostgresUser, "-XAtc", "SELECT 6*7"); err != nil || out != "42" {
		t.Errorf("%q, %v", out, err)
	}
	pooler.Restart()
}

func portOf(t *testing.T, s *Server) string {
	t.Helper()
	_, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// A disk of its own is full, and then not any more.
func TestPostgresDisk(t *testing.T) {
	t.Parallel()
	s := Postgres(t, WithDisk(DiskData, "96m"))
	grow := "CREATE TABLE t AS SELECT repeat('x', 1000) FROM generate_series(1, 1000)"
	s.Fill()
	if _, err := s.postgresDo(grow); err == nil {
		t.Error("a table grows on a full disk")
	}
	s.Free()
	if _, err := s.postgresDo(grow); err != nil {
		t.Errorf("with room again: %v", err)
	}
}
