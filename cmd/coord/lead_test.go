package main_test

import (
	"strconv"
	"testing"
)

func TestLeadRefuses(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	for _, tt := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{[]string{"lead"}, 64, "coord: no NAME: see coord lead --help\n"},
		{[]string{"lead", "a"}, 64, "coord: no command: want coord lead a -- CMD\n"},
		{[]string{"lead", "a", "--ttl", "0s", "--", "true"}, 64, "coord: --ttl 0s: want above 0\n"},
		{[]string{"lead", "a", "--grace", "11s", "--", "true"}, 64, "coord: --grace 11s: want at most 10s"},
		{[]string{"lead", "a", "--as", "two words", "--", "true"}, 64, `holder name "two words"`},
		{[]string{"lead", "a", "--fair", "--", "true"}, 64, `does not claim "fair"`},
		{[]string{"lead", "a", "--wait", "1s", "--", "true"}, 64, "unknown flag: --wait"},
		{[]string{"lead", "a", "--", "nosuch-command"}, 127, `coord: cannot run "nosuch-command"`},
		{[]string{"--url", "memory://", "lead", "a", "--", "true"}, 64, "would keep nobody out"},
	} {
		u.run(tt.args...).want(t, tt.code, "", tt.stderr)
	}
}

// One leads, and another one goes on when its command ends.
func TestLeadHandsOver(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, u *user) {
		first, h := u.hold("lead", "a", "--as", "one:1")
		u.run("status", "a").want(t, 0, "leader      one:1 (pid ", "")
		u.run("status", "a", "--json").want(t, 0, `"leader": true`, "")
		second := u.begin("lead", "a", "--as", "two:2", "--", "true")
		first.finish <- 7
		first.end().want(t, 7, "", "")
		next := second.running()
		if h.env["COORD_LOCK"] != "a" || number(t, next.env["COORD_TOKEN"]) <= number(t, h.env["COORD_TOKEN"]) {
			t.Errorf("term %v after %v", next.env, h.env)
		}
		u.run("status", "a").want(t, 0, "leader      two:2 (pid ", "")
		second.release()
		u.run("status", "a").want(t, 3, "free", "")
	})
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
