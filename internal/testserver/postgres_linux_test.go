package testserver

import "testing"

func TestPostgresFaults(t *testing.T) {
	t.Parallel() // it waits for what a paused server does not answer
	s := Postgres(t)
	if len(childrenOf(s.Pid())) == 0 {
		t.Fatal("the server has no children")
	}
	s.Pause()
	for _, pid := range append(childrenOf(s.Pid()), s.Pid()) {
		if n, err := running(pid); err != nil || n > 0 {
			t.Errorf("%d threads of process %d of a paused server run: %v", n, pid, err)
		}
	}
	s.Resume()
	if err := postgresReady(s); err != nil {
		t.Errorf("after a pause: %v", err)
	}
	children := childrenOf(s.Pid())
	s.Kill()
	for _, pid := range children {
		if n, err := running(pid); err != nil || n > 0 {
			t.Errorf("process %d outlived its server: %v", pid, err)
		}
	}
	before := s.Addr
	s.Restart()
	if s.Addr != before {
		t.Errorf("address changed from %s to %s", before, s.Addr)
	}
	if err := postgresReady(s); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

func TestPostgresAsksForItsPassword(t *testing.T) {
	t.Parallel()
	if err := postgresReady(Postgres(t, WithPassword("secret"))); err != nil {
		t.Error(err)
	}
}
