package testserver

import "testing"

func TestSharedOutlivesTheTestThatStartsIt(t *testing.T) {
	var all Shared
	use := func(t *testing.T) *Server {
		return all.Use(t, func(t testing.TB) *Server { return Redis(t, WithFlags("--loglevel", "warning")) })
	}
	var first *Server
	t.Run("first", func(t *testing.T) { first = use(t) })
	t.Run("second", func(t *testing.T) {
		second := use(t)
		if second.Pid() != first.Pid() {
			t.Errorf("another server: process %d, and before %d", second.Pid(), first.Pid())
		}
		if _, err := second.redisDo("PING"); err != nil {
			t.Errorf("PING: %v", err)
		}
	})
	all.end()
	if _, err := first.redisDo("PING"); err == nil {
		t.Error("it answers after the end")
	}
}
