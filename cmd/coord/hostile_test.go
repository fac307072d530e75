//go:build unix

package main_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// Whoever may write to the store may write any name of a holder. What coord prints of it
// does not reach the terminal of whoever looks.
func TestHostileHolder(t *testing.T) {
	t.Parallel()
	url := "redis://" + testserver.Redis(t).Addr
	store, _, err := coord.OpenBackend(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	locker, ok := store.(driver.Locker)
	if !ok {
		t.Fatal("the store has no locks")
	}
	for _, id := range []string{
		"\x1b[2J\x1b]0;owned\a.1.5.x", "\x1b[31mno-id-at-all", "\u202eback.1.5.x", "\u009b31mred.1.5.x", "\U000e0001tag.1.5.x", "\xff\x9b31m",
	} {
		if _, err := locker.TryLock(t.Context(), "held", driver.Request{ID: id, TTL: time.Minute}); err != nil {
			t.Fatal(err)
		}
		u := newUser(t, url)
		said := u.watchFirst("held") + u.watchFirst("held", "--json")
		for _, command := range []string{
			"status held", "status held --json", "lock held --no-wait -- true", "lock held -v --wait 10ms -- true", "break held --now",
		} {
			r := u.run(strings.Fields(command)...)
			said += r.stdout + r.stderr
		}
		if strings.ContainsAny(said, "\x1b\a\u202e\u009b\U000e0001") || !utf8.ValidString(said) || !strings.Contains(said, "took the lock") {
			t.Errorf("%q is shown as %q", id, said)
		}
	}
}

// watchFirst is the first line of a watch.
func (u *user) watchFirst(args ...string) string {
	u.t.Helper()
	cmd := u.command(append([]string{"watch"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		u.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	lines := make(chan string, 64)
	go readLines(out, lines)
	first := <-lines
	if err := cmd.Process.Kill(); err != nil {
		u.t.Fatal(err)
	}
	for range lines {
	}
	exitCode(u.t, cmd.Wait()) // killed
	return first + "\n"
}
