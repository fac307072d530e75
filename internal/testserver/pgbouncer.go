package testserver

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// PgBouncer gives a pooler before a PostgreSQL server, for its databases and any user. Lines are of its configuration:
// pool_mode is transaction unless they say otherwise.
func PgBouncer(t testing.TB, server *Server, lines ...string) *Server {
	t.Helper()
	host, port, err := net.SplitHostPort(server.Addr)
	if err != nil {
		t.Fatalf("testserver: %v", err)
	}
	k := kind{
		store: "postgres", binaries: []string{"pgbouncer", "/usr/sbin/pgbouncer"},
		args:  pgbouncerArgs,
		ready: postgresReady, ownUser: true,
	}
	return start(t, k, []Option{WithConfig(append([]string{
		"[databases]", fmt.Sprintf("* = host=%s port=%s", host, port),
		"[pgbouncer]", "pool_mode = transaction", "auth_type = trust", "unix_socket_dir =", "listen_addr = 127.0.0.1",
		"max_client_conn = 1000", "default_pool_size = 20",
		"server_login_retry = 0.1", // a server that was away is asked again at once
	}, lines...)...)})
}

func pgbouncerArgs(s *Server, port string) []string {
	users, config := filepath.Join(s.dir, "users"), filepath.Join(s.dir, "pgbouncer.ini")
	text := strings.Join(append(s.config.lines, "listen_port = "+port, "auth_file = "+users, ""), "\n")
	for file, text := range map[string]string{config: text, users: `"postgres" ""` + "\n" + `"app" ""` + "\n"} {
		// What is not written makes it fail to start, which is told.
		_ = os.WriteFile(file, []byte(text), 0o644)
	}
	return []string{config}
}
