package main_test

import (
	"fmt"
	"strings"
	"testing"
)

// Of a semaphore of two a third command is refused; a weight takes several; members shows who is there.
func TestSemaphoreCommand(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	var held []*session
	for slot := range 2 {
		s, h := u.hold("semaphore", "build", "-n", "2")
		if h.env["COORD_LOCK"] != "build" || h.env["COORD_SLOT"] != fmt.Sprint(slot) {
			t.Errorf("number %d has %v", slot, h.env)
		}
		held = append(held, s)
	}
	u.run("semaphore", "build", "-n", "2", "--no-wait", "--", "true").want(t, 75, "", `no permit of "build" is free: held by `)
	u.run("semaphore", "build", "-n", "4", "--no-wait", "--", "true").want(t, 75, "", "and 1 more")
	u.run("members", "build", "--semaphore").want(t, 0, "0  1 of 2  ", "")
	u.run("members", "build").want(t, 3, "", "")
	held[0].release()
	u.run("semaphore", "build", "-n", "2", "--no-wait", "--", "false").want(t, 1, "", "")
	held[1].release()
	u.run("semaphore", "build", "-n", "2", "--weight", "2", "--no-wait", "--", "echo", "ran").want(t, 0, "ran\n", "")
}

// Readers are together, a writer is alone.
func TestReadWriteCommand(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	reader, _ := u.hold("lock", "index", "--read")
	u.run("lock", "index", "--read", "--no-wait", "--", "echo", "too").want(t, 0, "too\n", "")
	u.run("lock", "index", "--write", "--no-wait", "--", "true").want(t, 75, "", `the lock "index" is taken: held by `)
	u.run("lock", "index", "--no-wait", "--", "echo", "apart").want(t, 0, "apart\n", "")
	if r := u.run("members", "index", "--json"); r.code != 0 || !strings.Contains(r.stdout, `"mode":"read"`) || !strings.Contains(r.stdout, `"slot":0`) {
		t.Errorf("members: %+v", r)
	}
	reader.release()
	u.run("lock", "index", "--write", "--no-wait", "--", "echo", "alone").want(t, 0, "alone\n", "")
	u.run("members", "index").want(t, 3, "", "")
}

func TestSharedCommandsRefuse(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	for _, tt := range []struct {
		args   []string
		stderr string
	}{
		{[]string{"semaphore", "a", "--", "true"}, "coord: no -n: how many permits are there?"},
		{[]string{"semaphore", "a", "-n", "0", "--", "true"}, "coord: -n 0 --weight 1: want at least 1 of each"},
		{[]string{"semaphore", "a", "-n", "2", "--weight", "3", "--", "true"}, "a weight of at most -n"},
		{[]string{"semaphore", "a", "-n", "2"}, "coord: no command: want coord semaphore a -- CMD\n"},
		{[]string{"semaphore", "a", "-n", "2", "--min-hold", "1s", "--", "true"}, "unknown flag: --min-hold"},
		{[]string{"lock", "a", "--read", "--write", "--", "true"}, "--read and --write contradict each other"},
		{[]string{"lock", "a", "--read", "--min-hold", "1s", "--", "true"}, "--min-hold with a lock that others share"},
		{[]string{"members"}, "want one NAME, not 0 arguments"},
	} {
		u.run(tt.args...).want(t, 64, "", tt.stderr)
	}
}
