package main_test

import (
	"io"
	"os"
	"testing"
	"time"
)

// The kernel tells of a hang-up the leader of the session alone, which coord is under ssh -t: it
// passes the signal on.
func TestLockHangUp(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	r, master := u.onTerminal("lock", "a", "--", "bash", "-c", `trap 'echo HUP > hup; exit 3' HUP; echo up; while :; do sleep 0.05; done`)
	r.await("up")
	if err := master.(io.Closer).Close(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- r.cmd.Wait() }()
	select {
	case err := <-ended:
		if code := exitCode(t, err); code != 3 {
			t.Errorf("exit status %d, want 3", code)
		}
	case <-time.After(patience):
		t.Fatal("the command runs on without its terminal")
	}
	if text, err := os.ReadFile(u.path("hup")); err != nil || string(text) != "HUP\n" {
		t.Errorf("the command noted %q, %v", text, err)
	}
}
