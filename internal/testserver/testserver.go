// Package testserver gives a test a real store: a child process on a free
// loopback port, gone when the test ends, or a server that already runs.
//
// For each store X there is one function, and two variables of the environment
// have a say:
//
//   - COORD_TEST_X (COORD_TEST_REDIS=127.0.0.1:6379) names a running server to
//     use. It cannot be killed, paused or restarted: Owned is false.
//   - COORD_TEST_REQUIRE=redis,etcd names stores that must be there: without
//     the server a test fails, where otherwise it skips.
package testserver

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// readyWithin is from when on a server is held to hang that was started, or is to come to something: much longer than a
// machine under load is late.
const readyWithin = time.Minute

// Server is a store to test against. Its methods end the test on errors, and
// are for one goroutine at a time.
type Server struct {
	// Store names the product: "redis".
	Store string
	// Addr is host:port on the loopback interface, or what the environment named.
	Addr string
	// Owned is false if the environment named the server. Kill, Pause, Resume
	// and Restart then skip the test.
	Owned bool
	// TLS holds the keys to a server that was started with WithTLS, else nil.
	TLS *TLS

	t       testing.TB
	kind    kind
	config  config
	dir     string
	process *process
	attr    *syscall.SysProcAttr // of the process, nil for the usual
	paused  bool
	shared  bool // with other tests

	// Of a node of a cluster only.
	cluster *Cluster
	index   int    // in cluster.Nodes
	peer    string // host:port for the other nodes
	host    string // "" is the loopback address
	netns   string // the network namespace it runs in, "" for ours
}

// kind is what Server needs to know of one product.
type kind struct {
	store    string
	binaries []string // the first that is on PATH is run
	args     func(s *Server, port string) []string
	ready    func(s *Server) error                // nil once the server answers
	leads    func(s *Server) bool                 // of a cluster: this node leads
	setUp    func(s *Server, binary string) error // before the first start; nil: nothing to do
	tree     bool                                 // the server is several processes, one the parent of all others
	ownUser  bool                                 // the server does not run as root, but as the user store
}

// config is what the options set.
type config struct {
	flags    []string
	lines    []string
	tls      bool
	durable  bool
	password string
	network  bool
	disk     Disk // of PostgreSQL; "": none of its own
	diskSize string
}

// Option changes how a server is started. A test that uses one never gets the
// server of the environment.
type Option func(*config)

// WithFlags adds arguments to the server's command line.
func WithFlags(args ...string) Option {
	return func(c *config) { c.flags = append(c.flags, args...) }
}

// WithConfig adds lines to the server's configuration file, of a server that has one.
func WithConfig(lines ...string) Option {
	return func(c *config) { c.lines = append(c.lines, lines...) }
}

// WithTLS makes the server speak TLS only and ask for a client certificate;
// Server.TLS has the certificates.
func WithTLS() Option { return func(c *config) { c.tls = true } }

// WithPassword makes the server ask for a password.
func WithPassword(p string) Option { return func(c *config) { c.password = p } }

// Durable makes the server keep its data over Restart. Without it a restart
// loses everything.
func Durable() Option { return func(c *config) { c.durable = true } }

// start gives the running server of the environment, or starts one.
func start(t testing.TB, k kind, opts []Option) *Server {
	t.Helper()
	s := &Server{Store: k.store, t: t, kind: k}
	for _, o := range opts {
		o(&s.config)
	}
	if addr := os.Getenv("COORD_TEST_" + strings.ToUpper(k.store)); addr != "" && len(opts) == 0 {
		s.Addr = addr
		if err := s.awaitReady(); err != nil {
			t.Fatalf("testserver: %s at %s, from the environment: %v", k.store, addr, err)
		}
		t.Logf("testserver: at %s, from the environment", addr)
		return s
	}
	binary := find(k.binaries)
	if binary == "" {
		missing(t, k)
	}
	s.Owned = true
	s.dir = dataDir(t)
	if s.config.tls {
		s.TLS = newTLS(t, s.dir)
	}
	t.Cleanup(s.end)
	if err := s.prepare(binary); err != nil {
		t.Fatalf("testserver: prepare %s: %v", binary, err)
	}
	s.launch(binary)
	t.Logf("testserver: a child process, %s", binary)
	return s
}

// prepare does what comes before the first start.
func (s *Server) prepare(binary string) (err error) {
	if s.kind.ownUser {
		if s.attr, err = attrAs(s.kind.store, s.dir); err != nil {
			return err
		}
	}
	if s.kind.setUp != nil {
		return s.kind.setUp(s, binary)
	}
	return nil
}

func missing(t testing.TB, k kind) {
	t.Helper()
	why := fmt.Sprintf("testserver: none of %s is on PATH", strings.Join(k.binaries, ", "))
	if slices.Contains(strings.Split(os.Getenv("COORD_TEST_REQUIRE"), ","), k.store) {
		t.Fatal(why + ", and COORD_TEST_REQUIRE names " + k.store)
	}
	t.Skip(why)
}

// dataDir is in memory where the machine has such a file system: a store that
// syncs to a disk takes milliseconds to answer.
func dataDir(t testing.TB) string {
	t.Helper()
	const shm = "/dev/shm"
	if info, err := os.Stat(shm); err == nil && info.IsDir() {
		if dir, err := os.MkdirTemp(shm, "coord-test-"); err == nil {
			t.Cleanup(func() {
				if err := os.RemoveAll(dir); err != nil {
					t.Error(err)
				}
			})
			return dir
		}
	}
	return t.TempDir()
}

// Pid is the process of a server that was started here, 0 of another.
func (s *Server) Pid() int {
	if s.process == nil {
		return 0
	}
	return s.process.cmd.Process.Pid
}

// launch starts the server on a free port. Another program can take the port
// between our look and the server's bind: then another is tried.
func (s *Server) launch(binary string) {
	s.t.Helper()
	var err error
	for range 5 {
		var port string
		if port, err = freePort(); err != nil {
			break
		}
		s.Addr = net.JoinHostPort("127.0.0.1", port)
		if err = s.run(binary, port); err == nil {
			return
		}
	}
	s.t.Fatalf("testserver: start %s: %v\n%s", binary, err, s.log())
}

// run starts the server process and waits until it answers.
func (s *Server) run(binary, port string) error {
	if err := s.launchAt(binary, port); err != nil {
		return err
	}
	if err := s.awaitReady(); err != nil {
		s.process.kill()
		return err
	}
	return nil
}

// launchAt starts the server process.
func (s *Server) launchAt(binary, port string) error {
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	args := append(s.kind.args(s, port), s.config.flags...)
	if s.netns != "" {
		// ip replaces itself by the server, which keeps the process id.
		args = append([]string{"netns", "exec", s.netns, binary}, args...)
		binary = "ip"
	}
	attr := s.attr
	if attr == nil {
		attr = childAttr()
	}
	if s.process, err = spawn(binary, args, s.dir, log, attr); err != nil {
		return err
	}
	s.process.tree = s.kind.tree
	return nil
}

// awaitReady polls until the server answers, has exited, or takes too long.
func (s *Server) awaitReady() error {
	deadline := time.Now().Add(readyWithin)
	for {
		err := s.kind.ready(s)
		if err == nil {
			return nil
		}
		var exited <-chan struct{}
		if s.process != nil {
			exited = s.process.done
		}
		select {
		case <-exited:
			return fmt.Errorf("exited: %w", err)
		case <-time.After(2 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not ready after %v: %w", readyWithin, err)
		}
	}
}

// owned ends a test that wants a fault of a server which is not ours.
func (s *Server) owned() {
	s.t.Helper()
	if s.shared {
		s.t.Fatalf("testserver: other tests use this %s, too", s.Store)
	}
	if !s.Owned {
		s.t.Skipf("testserver: %s at %s is not ours to disturb", s.Store, s.Addr)
	}
}

// Kill ends the server with SIGKILL and waits until it is gone.
func (s *Server) Kill() {
	s.t.Helper()
	s.owned()
	s.process.kill()
	s.paused = false
}

// Restart starts the server again on the same address, after a Kill if it still
// runs. Its data is gone, unless it is Durable.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	_, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.run(find(s.kind.binaries), port); err != nil {
		s.t.Fatalf("testserver: restart %s: %v\n%s", s.Store, err, s.log())
	}
}

// Reconfigure adds lines to the server's configuration file, for its next start.
func (s *Server) Reconfigure(lines ...string) { s.config.lines = append(s.config.lines, lines...) }

// Pause stops the server with SIGSTOP: connections stay open, and nothing answers
// any more when it returns.
func (s *Server) Pause() {
	s.t.Helper()
	s.owned()
	err := s.process.stop()
	if err == nil {
		err = awaitStopped(s.process.cmd.Process.Pid)
	}
	if err != nil {
		s.t.Fatalf("testserver: pause %s: %v", s.Store, err)
	}
	s.paused = true
}

// Resume lets a paused server go on.
func (s *Server) Resume() {
	s.t.Helper()
	s.owned()
	if err := s.process.resume(); err != nil {
		s.t.Fatalf("testserver: resume %s: %v", s.Store, err)
	}
	s.paused = false
}

// Slow stops the server again and again for so long, and lets it serve a little in between, until end is called.
func (s *Server) Slow(stopped, serves time.Duration) (end func()) {
	s.t.Helper()
	s.owned()
	quit, done := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			if err = s.process.stop(); err == nil {
				time.Sleep(stopped)
				err = s.process.resume()
			}
			select {
			case <-quit:
				done <- err
				return
			case <-time.After(serves):
			}
		}
		done <- err
	}()
	return func() {
		close(quit)
		if err := <-done; err != nil {
			s.t.Errorf("testserver: slow %s: %v", s.Store, err)
		}
	}
}

// end is the cleanup: the server goes, and its log is shown if the test failed.
func (s *Server) end() {
	if s.process != nil {
		s.process.kill()
	}
	if s.t.Failed() {
		s.t.Logf("log of %s:\n%s", s.Store, s.log())
	}
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "server.log") }

// How much is shown of a server's output: enough to see how it ended, and so little that what the
// test says is found among it.
const (
	logLines = 12
	logWidth = 240
)

// log is the end of the server's output.
func (s *Server) log() string {
	b, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	return lastOf(string(b))
}

// lastOf gives the last lines of text. Of a line that is too long it gives both ends: what a server says
// is at the one, and the error at the other.
func lastOf(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	lines = lines[max(0, len(lines)-logLines):]
	for i, l := range lines {
		if len(l) > logWidth {
			lines[i] = strings.ToValidUTF8(l[:logWidth/2], "") + "…" + strings.ToValidUTF8(l[len(l)-logWidth/2:], "")
		}
	}
	return strings.Join(lines, "\n")
}
