//go:build unix

package adapter

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/internal/repo/docsnippets/adapter/kv"
)

const serveEnv = "KV_SERVE"

// TestMain lets this program be what the tests start: a worker of the suite, or the server.
func TestMain(m *testing.M) {
	conformance.WorkerMain()
	if addr := os.Getenv(serveEnv); addr != "" {
		l, err := net.Listen("tcp", addr)
		if err == nil {
			err = kv.NewServer().Serve(l)
		}
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// server is the store as a process that a test can break.
type server struct {
	t    *testing.T
	addr string
	cmd  *exec.Cmd
}

func startServer(t *testing.T) *server {
	l, err := net.Listen("tcp", "127.0.0.1:0") // only to learn of a free port
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, addr: l.Addr().String()}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s.start()
	t.Cleanup(s.kill)
	return s
}

// start starts the process and waits until it answers.
func (s *server) start() {
	exe, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	s.cmd = exec.Command(exe)
	s.cmd.Env = append(os.Environ(), serveEnv+"="+s.addr)
	s.cmd.Stderr = os.Stderr
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		conn, err := net.Dial("tcp", s.addr)
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the server does not answer: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// kill ends it as a crash would. Wait then reports the signal, which is no news.
func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func (s *server) pause()  { s.signal(syscall.SIGSTOP) }
func (s *server) resume() { s.signal(syscall.SIGCONT) }

func (s *server) signal(sig os.Signal) {
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Errorf("%v: %v", sig, err)
	}
}

// clear makes it lose everything at once.
func (s *server) clear() {
	c := newClient(s.addr)
	defer c.close()
	if _, err := c.call(s.t.Context(), kv.Request{Op: "clear"}); err != nil {
		s.t.Errorf("clear: %v", err)
	}
}
