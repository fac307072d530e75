package testserver

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func call(t *testing.T, s *Server, args ...string) string {
	t.Helper()
	out, err := s.redisDo(args...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return out
}

func TestRedisLoseAndKeep(t *testing.T) {
	for name, opts := range map[string][]Option{"lose": {WithFlags("--loglevel", "warning")}, "keep": {Durable()}} {
		t.Run(name, func(t *testing.T) {
			s := Redis(t, opts...)
			call(t, s, "SET", "k", "v")
			before := s.Addr
			s.Restart()
			if s.Addr != before {
				t.Errorf("address changed from %s to %s", before, s.Addr)
			}
			if got, want := call(t, s, "EXISTS", "k"), map[string]string{"lose": "0", "keep": "1"}[name]; got != want {
				t.Errorf("EXISTS = %s after a restart, want %s", got, want)
			}
		})
	}
}

func TestRedisFaults(t *testing.T) {
	t.Parallel() // it waits for what a paused server does not answer
	s := Redis(t, WithPassword("secret"))
	call(t, s, "SET", "k", "v")
	if n := s.Commands()["set"]; n != 1 {
		t.Errorf("%d SETs counted", n)
	}
	s.Pause()
	if _, err := s.redisDo("PING"); err == nil {
		t.Error("a paused server answered")
	}
	s.Resume()
	call(t, s, "GET", "k")
	s.Kill()
	if _, err := s.redisDo("PING"); err == nil {
		t.Error("a killed server answered")
	}
	s.Restart()
	call(t, s, "PING")
}

func TestRedisTLS(t *testing.T) {
	s := Redis(t, WithTLS())
	if got := call(t, s, "PING"); got != "PONG" {
		t.Errorf("PING = %q", got)
	}
}

// TestMissing runs itself with an empty PATH, once with the store required.
func TestMissing(t *testing.T) {
	if os.Getenv("COORD_TESTSERVER_CHILD") != "" {
		Redis(t, Durable())
		return
	}
	for require, want := range map[string]string{"": "--- SKIP", "etcd,redis": "--- FAIL"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestMissing$", "-test.v")
		cmd.Env = append(os.Environ(), "COORD_TESTSERVER_CHILD=1", "PATH=/nonexistent", "COORD_TEST_REQUIRE="+require)
		out, err := cmd.CombinedOutput()
		if (err != nil) != (require != "") || !strings.Contains(string(out), want) {
			t.Errorf("COORD_TEST_REQUIRE=%q: %v\n%s", require, err, out)
		}
	}
}

// TestChildDiesWithParent kills a process that has a server: the server goes too.
func TestChildDiesWithParent(t *testing.T) {
	if childAttr() == nil {
		t.Skip("this system cannot tie a child's life to its parent's")
	}
	if os.Getenv("COORD_TESTSERVER_CHILD") != "" {
		s := Redis(t, Durable())
		os.Stdout.WriteString("\nADDR " + s.Addr + " " + s.dir + "\n")
		select {}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestChildDiesWithParent$", "-test.v")
	cmd.Env = append(os.Environ(), "COORD_TESTSERVER_CHILD=1")
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var seen strings.Builder
	buf := make([]byte, 1024)
	var addr string
	for addr == "" {
		n, err := pipe.Read(buf)
		if err != nil {
			t.Fatalf("%v\n%s", err, seen.String())
		}
		seen.Write(buf[:n])
		if _, rest, ok := strings.Cut(seen.String(), "ADDR "); ok && strings.Contains(rest, "\n") {
			addr = strings.TrimSpace(rest[:strings.IndexByte(rest, '\n')])
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	addr, dir, _ := strings.Cut(addr, " ")
	awaitGone(t, &Server{Addr: addr})
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}

// awaitGone polls until nothing listens at s any more.
func awaitGone(t *testing.T, s *Server) {
	t.Helper()
	for deadline := time.Now().Add(readyWithin); ; {
		if _, err := s.redisDo("PING"); err != nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the server outlived its parent")
		}
		time.Sleep(time.Millisecond)
	}
}

// Of a server's output its end is shown, and no line as a whole that is very long.
func TestLastOf(t *testing.T) {
	var text strings.Builder
	for i := range 3 * logLines {
		fmt.Fprintf(&text, "%d %s\n", i, strings.Repeat("ä", logWidth))
	}
	lines := strings.Split(lastOf(text.String()), "\n")
	if len(lines) != logLines || !strings.HasPrefix(lines[0], fmt.Sprint(2*logLines)) || !strings.HasPrefix(lines[logLines-1], fmt.Sprint(3*logLines-1)) {
		t.Errorf("%d lines, from %.9q to %.9q", len(lines), lines[0], lines[len(lines)-1])
	}
	for _, l := range lines {
		if len(l) > logWidth+len("…") || !utf8.ValidString(l) {
			t.Errorf("%q", l)
		}
	}
	if got := lastOf(""); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}
