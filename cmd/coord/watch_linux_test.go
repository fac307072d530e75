package main_test

import (
	"io"
	"strings"
	"testing"
	"time"
)

// On a terminal the table is drawn again and again, until Ctrl-C; then what was there before
// comes back, and the last table stays.
func TestWatchTerminal(t *testing.T) {
	u := newUser(t, "")
	r, keys := u.onTerminal("watch", "a", "--limit", "l=5/1h", "--interval", "50ms")
	see := func(what ...string) {
		t.Helper()
		var shown []string
		for len(what) > 0 {
			select {
			case line, ok := <-r.lines:
				if !ok {
					t.Fatalf("it has ended; it showed %q", shown)
				}
				shown = append(shown, line)
				if strings.Contains(line, what[0]) {
					what = what[1:]
				}
			case <-time.After(30 * time.Second):
				t.Fatalf("it did not show %q, but %q", what[0], shown)
			}
		}
	}
	see("\x1b[?1049h", "a  free", "l  5 left  of 5/1h", "\x1b[H", "a  free")
	u.run("limit", "l", "--rate", "5/1h").want(t, 0, "", "")
	see("l  4 left  of 5/1h")
	if _, err := io.WriteString(keys, "\x03"); err != nil {
		t.Fatal(err)
	}
	see("\x1b[?1049l", "l  4 left  of 5/1h")
	if code := exitCode(t, r.cmd.Wait()); code != 0 {
		t.Errorf("exit status %d, want 0", code)
	}
}
