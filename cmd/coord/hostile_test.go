package main_test

import (
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/coordgo/coord/driver"
)

// Whoever may write to the store may write any name of a holder. What coord prints of it
// does not reach the terminal of whoever looks.
func TestHostileHolder(t *testing.T) {
	t.Parallel()
	u := newRedisUser(t)
	u.env = append(u.env, "COORD_PREFIX=") // so that the store's keys are coord's
	url := u.store.url(t)
	store, _, err := driver.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	const name = "hostile"
	for _, id := range []string{
		"\x1b[2J\x1b]0;owned\a.1.5.x", "\x1b[31mno-id-at-all", "\u202eback.1.5.x", "\u009b31mred.1.5.x", "\U000e0001tag.1.5.x", "\xff\x9b31m",
	} {
		if _, err := store.TryLock(t.Context(), name, driver.Request{ID: id, TTL: time.Minute}); err != nil {
			t.Fatal(err)
		}
		said := u.watchFirst(name) + u.watchFirst(name, "--json")
		for _, command := range []string{
			"status NAME", "status NAME --json", "lock NAME --no-wait -- true", "lock NAME -v --wait 10ms -- true", "break NAME --now",
		} {
			r := u.run(strings.Fields(strings.ReplaceAll(command, "NAME", name))...)
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
	s := u.begin(append([]string{"watch"}, args...)...)
	first := s.line()
	s.signal(syscall.SIGTERM)
	s.end()
	return first + "\n"
}
