package main_test

import (
	"io"
	"strings"
	"testing"
	"time"
)

// see waits until it has shown each of these, one after the other.
func (r *running) see(what ...string) {
	r.t.Helper()
	var shown []string
	late := time.After(patience)
	for len(what) > 0 {
		select {
		case line, ok := <-r.lines:
			if !ok {
				r.t.Fatalf("it has ended; it showed %q", shown)
			}
			shown = append(shown, line)
			if strings.Contains(line, what[0]) {
				what = what[1:]
			}
		case <-late:
			r.t.Fatalf("it did not show %q, but %q", what[0], shown)
		}
	}
}

// On a terminal the table is drawn again and again, until Ctrl-C; then what was there before
// comes back, and the last table stays.
func TestWatchTerminal(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	u.env = append(u.env, "NO_COLOR=1")
	r, keys := u.onTerminal("watch", "a", "--limit", "l=5/1h", "--interval", "50ms")
	r.see("\x1b[?1049h", "LOCK  STATE", "a     free", "LIMIT  LEFT  OF", "l      5     5/1h", "\x1b[H", "a     free")
	u.run("limit", "l", "--rate", "5/1h").want(t, 0, "", "")
	r.see("l      4     5/1h")
	if _, err := io.WriteString(keys, "\x03"); err != nil {
		t.Fatal(err)
	}
	r.see("\x1b[?1049l", "l      4     5/1h")
	if code := exitCode(t, r.cmd.Wait()); code != 0 {
		t.Errorf("exit status %d, want 0", code)
	}
}
