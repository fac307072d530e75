package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// watching is a coord watch --json that runs.
type watching struct{ *session }

func (u *user) watch(args ...string) watching {
	u.t.Helper()
	return watching{u.begin(append([]string{"watch", "--json", "--interval", "50ms"}, args...)...)}
}

// stop ends it, as Ctrl-C does.
func (w watching) stop() {
	w.t.Helper()
	w.signal(syscall.SIGINT)
	if r := w.end(); r.code != 0 || r.stderr != "" {
		w.t.Errorf("exit status %d; stderr: %s", r.code, r.stderr)
	}
}

// seen is a line of it.
type seen struct {
	Time              time.Time
	Kind, Name, State string
	Holder            struct {
		PID    int
		Token  string
		Leader bool
	}
	LeftMS    int64 `json:"left_ms"`
	Waiters   *int
	Limit     string
	Remaining int
	Error     string
}

// next is the next line.
func (w watching) next() (s seen) {
	w.t.Helper()
	line := w.line()
	if err := json.Unmarshal([]byte(line), &s); err != nil {
		w.t.Fatalf("%v: %s", err, line)
	}
	return s
}

// until is the first line that will do.
func (w watching) until(ok func(seen) bool) seen {
	w.t.Helper()
	for {
		if s := w.next(); ok(s) {
			return s
		}
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, u *user) {
		holder, _ := u.hold("lock", "a")
		w := u.watch("a", "b", "--limit", "l=5/1h")
		first := []seen{w.next(), w.next(), w.next()}
		a, b, l := first[0], first[1], first[2]
		if a.Kind != "lock" || a.Name != "a" || a.State != "held" || a.Holder.Token == "" || a.Holder.PID != os.Getpid() || a.LeftMS <= 0 || a.Time.IsZero() {
			t.Errorf("of a held lock: %+v", a)
		}
		if b.Name != "b" || b.State != "free" || b.Error != "" {
			t.Errorf("of a free lock: %+v", b)
		}
		if l.Kind != "limit" || l.Name != "l" || l.Limit != "5/1h" || l.Remaining != 5 {
			t.Errorf("of a limit: %+v", l)
		}
		u.run("limit", "l", "--rate", "5/1h", "-n", "2").want(t, 0, "", "")
		w.until(func(s seen) bool { return s.Kind == "limit" && s.Remaining == 3 })
		holder.release()
		w.until(func(s seen) bool { return s.Name == "a" && s.State == "free" })
		w.stop()
	})
}

// Without --json it is lines that a person can read.
func TestWatchLines(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	w := watching{u.begin("watch", "a", "--limit", "l=5/1h burst=3", "--interval", "50ms")}
	for _, want := range []string{"  lock  a  free", "  limit  l  3 left  of 5/1h burst=3"} {
		if line := w.line(); !strings.HasSuffix(line, want) {
			t.Errorf("it says %q, want %q", line, want)
		}
	}
	w.stop()
}

// A store that goes away is told, and so is that it is back.
func TestWatchOutage(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	store := filepath.Join(u.dir, "store")
	u.env = append(u.env, "COORD_URL=file://"+store)
	w := u.watch("a")
	if s := w.next(); s.State != "free" {
		t.Errorf("%+v", s)
	}
	if err := os.Rename(store, store+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(store, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s := w.next(); s.Error == "" || s.Name != "a" || s.Kind != "lock" {
		t.Errorf("without its store it saw %+v", s)
	}
	if err := os.Remove(store); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(store+".away", store); err != nil {
		t.Fatal(err)
	}
	w.until(func(s seen) bool { return s.State == "free" })
	w.stop()
}

func TestWatchMistakes(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	config := filepath.Join(u.dir, "coord.yaml")
	if err := os.WriteFile(config, []byte("url: file://"+u.dir+"/coord\nlimits: { mail: 10/1m }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	u.run("watch", "a", "--interval", "1ms").want(t, 64, "", "--interval 1ms: want 50ms to 1h0m0s")
	u.run("watch", "--limit", "l=much").want(t, 64, "", `--limit "l=much": `)
	u.run("watch", "--limit", "l").want(t, 64, "", `--limit "l": `)
	u.run("watch", "").want(t, 64, "", "key")
	u.run("--url", "memory://", "watch", "a").want(t, 64, "", "each process's own")
	u.run("--url", "redis://127.0.0.1:1", "watch", "a").want(t, 69, "", "store unavailable")
	u.env = append(u.env, "XDG_STATE_HOME="+u.dir)
	w := u.watch("--config", config, "--limit", "mail")
	if s := w.next(); s.Limit != "10/1m" || s.Remaining != 10 {
		t.Errorf("a limit of the file: %+v", s)
	}
	w.stop()
}

// Without a name it shows all that is held, and once that it is free.
func TestWatchAll(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, u *user) {
		if !u.store.lists {
			u.run("watch").want(t, 64, "", "the store "+u.store.name+" cannot list what is held: give a NAME")
			return
		}
		u.run("watch", "a", "--prefix", "b").want(t, 64, "", "coord: NAME and --prefix: want one of them")
		other, _ := u.hold("lock", "other")
		defer other.release()
		reader, _ := u.hold("lock", "jobs/a", "--read")
		w := u.watch("--prefix", "jobs/")
		if s := w.next(); s.Name != "jobs/a" || s.State != "shared" {
			t.Errorf("of a read lock: %+v", s)
		}
		next, _ := u.hold("lock", "jobs/b")
		if s := w.next(); s.Name != "jobs/b" || s.State != "held" {
			t.Errorf("of a lock that is new: %+v", s)
		}
		next.release()
		if s := w.next(); s.Name != "jobs/b" || s.State != "free" {
			t.Errorf("of a lock that was given back: %+v", s)
		}
		leader, _ := u.hold("lead", "jobs/c")
		if s := w.next(); s.Name != "jobs/c" || !s.Holder.Leader {
			t.Errorf("of a leader: %+v", s)
		}
		u.run("status", "--prefix", "jobs/").want(t, 0, "jobs/c  leader  ", "")
		leader.release()
		if s := w.next(); s.Name != "jobs/c" || s.State != "free" {
			t.Errorf("of a leader that has ended: %+v", s)
		}
		reader.release()
		if s := w.next(); s.Name != "jobs/a" || s.State != "free" {
			t.Errorf("of a read lock that was given back: %+v", s)
		}
		w.stop()
	})
}
