package testserver

import (
	"os"
	"slices"
	"sync"
	"testing"
)

// Shared is a server for all tests of a package that disturb nobody. The first that asks starts it, and it ends when all tests
// are over. The zero value is ready.
//
//	var everybody testserver.Shared
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(everybody.Main(m)) }
type Shared struct {
	mu       sync.Mutex
	server   *Server
	cleanups []func()
}

// Use gives the server, which start starts. Where a test would disturb others, as by Kill, it fails.
func (s *Shared) Use(t testing.TB, start func(testing.TB) *Server) *Server {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		s.server = start(starter{t, s})
	}
	view := *s.server
	view.t, view.shared = t, true
	return &view
}

// Main runs the tests of m, and ends the server. m is a [*testing.M], or Main of another server.
func (s *Shared) Main(m interface{ Run() int }) interface{ Run() int } { return tests{m, s} }

type tests struct {
	all    interface{ Run() int }
	shared *Shared
}

func (t tests) Run() int {
	defer t.shared.end()
	return t.all.Run()
}

func (s *Shared) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cleanup := range slices.Backward(s.cleanups) {
		cleanup()
	}
	s.server, s.cleanups = nil, nil
}

// starter is the test that starts a server which outlives it.
type starter struct {
	testing.TB
	shared *Shared
}

func (s starter) Cleanup(f func()) { s.shared.cleanups = append(s.shared.cleanups, f) }

// TempDir stays, too.
func (s starter) TempDir() string {
	s.Helper()
	dir, err := os.MkdirTemp("", "coord-test-")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Failed is asked at the end, when the test is over.
func (s starter) Failed() bool { return false }
