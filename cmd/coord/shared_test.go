package main_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/coordgo/coord"
)

// Of a semaphore of two a third command is refused; a weight takes several.
func TestSemaphoreCommand(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	var held []*session
	for slot := range 2 {
		s, h := u.hold("lock", "build", "-n", "2")
		if h.env["COORD_LOCK"] != "build" || h.env["COORD_SLOT"] != fmt.Sprint(slot) {
			t.Errorf("number %d has %v", slot, h.env)
		}
		held = append(held, s)
	}
	u.run("lock", "build", "-n", "2", "--no-wait", "--", "true").want(t, 75, "", `no permit of "build" is free: held by `)
	u.run("lock", "build", "--permits", "4", "--no-wait", "--", "true").want(t, 75, "", "and 1 more")
	held[0].release()
	u.run("lock", "build", "-n", "2", "--no-wait", "--", "false").want(t, 1, "", "")
	held[1].release()
	u.run("lock", "build", "-n", "2", "--weight", "2", "--no-wait", "--", "echo", "ran").want(t, 0, "ran\n", "")
}

// Readers are together, a writer is alone.
func TestReadWriteCommand(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	reader, _ := u.hold("lock", "index", "--read")
	u.run("lock", "index", "--read", "--no-wait", "--", "echo", "too").want(t, 0, "too\n", "")
	u.run("lock", "index", "--write", "--no-wait", "--", "true").want(t, 75, "", `the lock "index" is taken: held by `)
	u.run("lock", "index", "--no-wait", "--", "echo", "not shared").want(t, 0, "not shared\n", "")
	reader.release()
	u.run("lock", "index", "--write", "--no-wait", "--", "echo", "alone").want(t, 0, "alone\n", "")
}

// memberSeen is a member in what status --json prints, as far as the tests look.
type memberSeen struct {
	ID, Mode   string
	Slot       int
	Weight, Of int64
	Token      coord.Token
	LeftMS     int64 `json:"left_ms"`
	Broken     bool
}

// members are those who share the name.
func (u *user) members(name, state string) (members []memberSeen) {
	u.t.Helper()
	r := u.run("status", name, "--json")
	var seen struct {
		State   string
		Members []memberSeen
	}
	if err := json.Unmarshal([]byte(r.stdout), &seen); err != nil || seen.State != state || r.code != 0 {
		u.t.Fatalf("%v: exit status %d, %s; want the state %q", err, r.code, r.stdout, state)
	}
	return seen.Members
}

// Whoever holds a name is seen and can be ended, whatever the kind of the hold: it is not free while anybody does.
func TestEveryKindIsSeenAndBroken(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, u *user) {
		u.run("status", "build").want(t, 3, "state  free", "")
		one, _ := u.hold("lock", "build", "-n", "3", "--ttl", "30s")
		two, _ := u.hold("lock", "build", "-n", "3", "--weight", "2", "--ttl", "30s")
		reader, _ := u.hold("lock", "build", "--read", "--ttl", "30s")
		u.run("status", "build").want(t, 0, "state  shared", "")
		text := u.run("status", "build").stdout
		for _, line := range []string{`KIND +SLOT +HOLDER +ASKED +LEASE LEFT +TOKEN +ID`, `read +\d +\S+ \(pid \d+\) +.* \d+ +\S+`, `1 of 3 permits +0 .*`, `2 of 3 permits +1 .*`} {
			if !regexp.MustCompile(`(?m)^` + line + `$`).MatchString(text) {
				t.Errorf("status shows no line %q:\n%s", line, text)
			}
		}
		members := u.members("build", "shared")
		if len(members) != 3 {
			t.Fatalf("%d members: %+v", len(members), members)
		}
		u.run("break", "build").want(t, 64, "", `3 hold "build": give the --id of one, as coord status build shows it`)
		u.run("break", "build", "--id", "nobody").want(t, 3, "", `"nobody" holds nothing of "build"`)
		for _, m := range members {
			want := map[string]string{"read": `took the read lock "build" from `, "permits": `took a permit of "build" from `}[m.Mode]
			if want == "" || m.LeftMS <= 0 || m.Token == 0 {
				t.Fatalf("%+v", m)
			}
			u.run("break", "build", "--now", "--id", m.ID).want(t, 0, want, "")
			u.run("break", "build", "--now", "--id", m.ID).want(t, 3, "", "")
		}
		u.run("status", "build").want(t, 3, "state  free", "")
		for _, s := range []*session{one, two, reader} {
			s.finish <- 0
			s.end().want(t, 74, "", "was lost")
		}
	})
}

// A permit that was broken keeps its place until its lease ends.
func TestBrokenPermitIsSeen(t *testing.T) {
	t.Parallel()
	u := newRedisUser(t)
	s, _ := u.hold("lock", "build", "-n", "1", "--ttl", "10m")
	u.run("break", "build").want(t, 0, `took a permit of "build" from `, "")
	u.run("status", "build").want(t, 0, "1 of 1 permits, broken", "")
	u.run("break", "build").want(t, 3, "", "is broken, and free in ")
	if members := u.members("build", "shared"); len(members) != 1 || !members[0].Broken {
		t.Errorf("%+v", members)
	}
	u.run("break", "build", "--now").want(t, 0, "it is free now", "")
	u.run("status", "build").want(t, 3, "state  free", "")
	s.finish <- 0
	s.end().want(t, 74, "", "was lost")
}

func TestSharedCommandsRefuse(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	for args, stderr := range map[string]string{
		"lock a -n 0 -- true":                 "coord: --permits 0 --weight 1: want at least 1 of each",
		"lock a -n 2 --weight 3 -- true":      "a weight of at most the permits",
		"lock a --weight 3 -- true":           "--weight 3 without --permits",
		"lock a -n 2":                         "coord: no command: want coord lock a -- CMD\n",
		"lock a -n 2 --min-hold 1s -- true":   "--min-hold with a lock that others share",
		"lock a --read --min-hold 1s -- true": "--min-hold with a lock that others share",
		"lock a --read --write -- true":       "--read, --write and --permits contradict each other",
		"lock a --read -n 3 -- true":          "--read, --write and --permits contradict each other",
		"semaphore a":                         `unknown command "semaphore"`,
		"break a --id":                        "--id",
	} {
		u.run(strings.Fields(args)...).want(t, 64, "", stderr)
	}
}
