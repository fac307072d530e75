package testserver

import (
	"slices"
	"testing"
)

func TestMemcachedForgets(t *testing.T) {
	s := Memcached(t, WithFlags("-c", "64"))
	if got := s.Text("set k 0 0 1\r\nv", "get k"); got[0] != "STORED" || got[1] != "VALUE k 0 1" {
		t.Errorf("set and get: %q", got)
	}
	if n := s.Stats()["cmd_set"]; n != 1 {
		t.Errorf("%d sets counted", n)
	}
	before := s.Addr
	s.Restart()
	if s.Addr != before {
		t.Errorf("address changed from %s to %s", before, s.Addr)
	}
	if got := s.Text("get k"); got[0] != "END" {
		t.Errorf("get after a restart: %q", got)
	}
}

func TestMemcachedFaults(t *testing.T) {
	t.Parallel() // it waits for what a paused server does not answer
	s := Memcached(t, WithPassword("secret"))
	if got := s.Text("set k 0 0 1\r\nv"); got[0] != "STORED" {
		t.Errorf("set: %q", got)
	}
	s.Pause()
	if _, err := s.memcachedText([]string{"get k"}); err == nil {
		t.Error("a paused server answered")
	}
	s.Resume()
	if got := s.Text("get k"); got[0] != "VALUE k 0 1" {
		t.Errorf("get after a pause: %q", got)
	}
	s.Kill()
	if err := memcachedReady(s); err == nil {
		t.Error("a killed server answered")
	}
	s.Restart()
	if got := s.Text("get k"); got[0] != "END" {
		t.Errorf("get after a restart: %q", got)
	}
}

func TestMemcachedTLS(t *testing.T) {
	s := Memcached(t, WithTLS())
	if got := s.Text("set k 0 0 1\r\nv", "get k"); !slices.Equal(got, []string{"STORED", "VALUE k 0 1"}) {
		t.Errorf("over TLS: %q", got)
	}
}
