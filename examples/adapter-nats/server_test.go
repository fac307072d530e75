//go:build unix

package natskv

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/coordgo/coord/conformance"
)

// TestMain lets this program be a worker of the suite.
func TestMain(m *testing.M) {
	conformance.WorkerMain()
	dir, err := os.MkdirTemp("", "natsd")
	if err != nil {
		panic(err)
	}
	natsdDir = dir
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// natsdDir is where the server's program is built.
var natsdDir string

// natsd builds the server's program, once.
var natsd = sync.OnceValues(func() (path string, err error) {
	path = filepath.Join(natsdDir, "natsd")
	out, err := exec.Command("go", "build", "-race=false", "-o", path, "./natsd").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build natsd: %w\n%s", err, out)
	}
	return path, nil
})

// server is NATS as a process that a test can break.
type server struct {
	t    testing.TB
	addr string
	dir  string
	cmd  *exec.Cmd
}

func startServer(t testing.TB) *server {
	l, err := net.Listen("tcp", "127.0.0.1:0") // only to learn of a free port
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, addr: l.Addr().String(), dir: t.TempDir()}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s.start()
	t.Cleanup(s.kill)
	return s
}

// start starts the process and waits until JetStream answers.
func (s *server) start() {
	exe, err := natsd()
	if err != nil {
		s.t.Fatal(err)
	}
	s.cmd = exec.Command(exe, s.addr, s.dir)
	s.cmd.Stderr = os.Stderr
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		if err = s.answers(); err == nil {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the server does not answer: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (s *server) answers() error {
	nc, err := nats.Connect(s.addr)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err = js.AccountInfo(ctx)
	return err
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

// connect is an application's connection, with the library's own defaults.
func (s *server) connect(tb testing.TB) *nats.Conn {
	nc, err := nats.Connect(s.addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(nc.Close)
	return nc
}

// create makes a bucket.
func (s *server) create(bucket string) {
	nc, err := nats.Connect(s.addr)
	if err == nil {
		defer nc.Close()
		err = Create(context.Background(), nc, Config{Bucket: bucket})
	}
	if err != nil {
		s.t.Errorf("create: %v", err)
	}
}

// wipe makes it lose everything in a bucket.
func (s *server) wipe(bucket string) {
	nc, err := nats.Connect(s.addr)
	if err != nil {
		s.t.Errorf("wipe: %v", err)
		return
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err == nil {
		err = js.DeleteStream(context.Background(), stream(bucket))
	}
	if err != nil {
		s.t.Errorf("wipe: %v", err)
	}
	s.create(bucket)
}
