package main_test

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
)

var (
	manyStreams = flag.Int("streams", 100, "held streams in TestServeMany")
	manyIdle    = flag.Int("idle", 1000, "idle connections in TestServeMany")
)

// A server with many streams and idle connections has a bounded memory, and goes on to serve.
//
//	go test ./cmd/coord -run TestServeMany -v -streams 1000 -idle 10000
func TestServeMany(t *testing.T) {
	t.Parallel()
	u := newRedisUser(t)
	s := u.serve("serve: {max_connections: 20000, max_holds: 20000, max_requests: 20000}")
	var conns []net.Conn
	open := func(n int, method, path, body, want string) (kilobytes int) {
		t.Helper()
		before := s.resident()
		for i := range n {
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
			text := strings.ReplaceAll(body, "NUMBER", fmt.Sprint(i))
			request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", method, path, len(text), text)
			if _, err := io.WriteString(conn, request); err != nil {
				t.Fatal(err)
			}
			for lines := bufio.NewScanner(conn); lines.Text() != want; {
				if !lines.Scan() {
					t.Fatalf("%s: no %s", request, want)
				}
			}
		}
		return s.resident() - before
	}
	began := s.resident()
	idle := open(*manyIdle, http.MethodGet, "/livez", "", "{}")
	held := open(*manyStreams, http.MethodPost, "/v1/locks/hold", `{"key":"NUMBER"}`, "event: held")
	t.Logf("%d KB; %d idle connections are %d KB more, and %d held streams another %d KB", began, *manyIdle, idle, *manyStreams, held)
	if n := idle / *manyIdle; n > 100 {
		t.Errorf("%d KB for an idle connection", n)
	}
	if n := held / *manyStreams; n > 400 {
		t.Errorf("%d KB for a held stream", n)
	}
	for _, conn := range conns {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	for i := range *manyStreams {
		if status, answer := s.post("/v1/locks/acquire", fmt.Sprintf(`{"key":"%d","wait_ms":60000}`, i)); status != http.StatusOK {
			t.Fatalf("%d %v", status, answer)
		}
	}
}

// resident is the memory of the server, in KB.
func (s *serving) resident() (kilobytes int) {
	s.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "VmRSS:")
	if _, err := fmt.Sscan(after, &kilobytes); err != nil {
		s.t.Fatal(err)
	}
	return kilobytes
}
