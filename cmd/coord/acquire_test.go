package main_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// acquire takes a lock for a while, and gives its id and token.
func (u *user) acquire(name, ttl string) (id, token string) {
	u.t.Helper()
	r := u.run("acquire", name, "--ttl", ttl, "--no-wait", "--json")
	r.want(u.t, 0, "", "")
	var l struct{ Name, ID, Token string }
	if err := json.Unmarshal([]byte(r.stdout), &l); err != nil || l.Name != name || l.ID == "" || l.Token == "" {
		u.t.Fatalf("%v: %+v", err, r)
	}
	return l.ID, l.Token
}

// The lock outlives the process that took it, until another one frees it.
func TestAcquireAndRelease(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, u *user) {
		if !u.store.kept {
			u.run("acquire", "a", "--ttl", "10m").want(t, 64, "", "the store zookeeper frees a lock when its process ends: use coord lock")
			u.run("status", "a").want(t, 3, "", "")
			return
		}
		id, token := u.acquire("a", "10m")
		u.run("status", "a").want(t, 0, id, "")
		u.run("acquire", "a", "--ttl", "10m", "--no-wait").want(t, 75, "", `the lock "a" is taken by `)
		u.run("lock", "a", "--no-wait", "--", "true").want(t, 75, "", "is taken by")
		u.run("release", "a", "--id", id).want(t, 0, "", "")
		u.run("status", "a").want(t, 3, "free", "")
		u.run("release", "a", "--id", id).want(t, 74, "", "nobody holds it now")

		// Another's hold is left alone.
		second, later := u.acquire("a", "10m")
		if len(later) < len(token) || len(later) == len(token) && later <= token { // numbers in decimal
			t.Errorf("token %s after %s", later, token)
		}
		u.run("release", "a", "--id", id).want(t, 74, "", "holds it now")
		u.run("status", "a").want(t, 0, second, "")
		u.run("release", "a", "--id", second).want(t, 0, "", "")

		// One that was broken is not given back: it stays taken, unless an operator frees it.
		broken, _ := u.acquire("a", "10m")
		u.run("break", "a").want(t, 0, "took the lock", "")
		u.run("release", "a", "--id", broken).want(t, 74, "", "nobody holds it now")
		u.run("status", "a").want(t, 0, "kept taken: nobody holds it any more", "")
		u.run("break", "a", "--now").want(t, 0, "which was kept taken", "")

		// Nobody renews it.
		over, _ := u.acquire("a", "1s")
		u.run("lock", "a", "--", "true").want(t, 0, "", "")
		u.run("release", "a", "--id", over).want(t, 74, "", "nobody holds it now")
	})
}

// The lock outlives the process. Steps of a job hand the lines on in their environment.
func TestAcquirePrintsAnEnvironment(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	r := u.process("acquire", "a", "--ttl", "10m")
	r.want(t, 0, "COORD_ID=", "")
	u.env = append(u.env, strings.Split(strings.TrimSpace(r.stdout), "\n")...)
	u.process("release", "a").want(t, 0, "", "")
	u.process("status", "a").want(t, 3, "free", "")
}

// A waiter gets the lock when it is released.
func TestAcquireWaits(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	id, _ := u.acquire("a", "10m")
	waiter := u.begin("acquire", "a", "--ttl", "10m", "--wait", "1m", "-v")
	waiter.says("waiting: ")
	u.run("release", "a", "--id", id).want(t, 0, "", "")
	waiter.end().want(t, 0, "COORD_ID=", "")
}

// An id that nobody can read is of no use: the lock is free again.
func TestAcquireWithoutAReader(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	if code := u.runInto(full{}, new(safeBuffer), nil, "acquire", "a", "--ttl", "10m"); code != 73 {
		t.Errorf("exit status %d, want 73", code)
	}
	u.run("status", "a").want(t, 3, "free", "")
}

func TestAcquireUsage(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	u.run("acquire", "a").want(t, 64, "", "no --ttl")
	u.run("acquire", "a", "--ttl", "0s").want(t, 64, "", "--ttl 0s: want above 0")
	u.run("acquire", "a\n", "--ttl", "1m").want(t, 64, "", `NAME "a\n" has a line break`)
	u.run("acquire", "--ttl", "1m").want(t, 64, "", "want one NAME")
	u.run("acquire", "a", "--ttl", "1m", "--wait", "1s", "--no-wait").want(t, 64, "", "contradict")
	u.run("acquire", "a", "--ttl", "1m", "--url", "memory://").want(t, 64, "", "each process's own")
	u.run("release", "a").want(t, 64, "", "no id: want --id or COORD_ID")
	u.run("release", "a", "--id", "").want(t, 64, "", "no id")
	u.run("release", "a", "--id", "x").want(t, 64, "", `"x" is no id`)
	u.run("release").want(t, 64, "", "want one NAME")
}
