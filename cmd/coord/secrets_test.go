package main_test

import (
	"encoding/json"
	"io/fs"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/internal/testserver"
)

// marked is in every secret that these tests plant, and nowhere else.
const marked = "m4rked"

// misplaced are URLs with a secret where a user may put one, by right or by mistake. Nobody listens there.
var misplaced = map[string]string{
	"a password":                "redis://u:m4rked@127.0.0.1:1",
	"a user":                    "redis://m4rked@127.0.0.1:1",
	"a slash":                   "redis://u:m4rked/m4rked@127.0.0.1:1",
	"a slash in what has no :":  "redis://m4rked/x@127.0.0.1:1",
	"a slash at the beginning":  "redis://u:/m4rked@127.0.0.1:1/0",
	"a number sign":             "redis://u:m4rked#m4rked@127.0.0.1:1",
	"a question mark":           "redis://u:m4rked?m4rked@127.0.0.1:1",
	"an @":                      "redis://u:m4rked@m4rked@127.0.0.1:1",
	"two @":                     "redis://u:x@m4rked@@127.0.0.1:1",
	"a colon":                   "redis://u:m4rked:m4rked@127.0.0.1:1",
	"a percent sign":            "redis://u:m4rked%zz@127.0.0.1:1",
	"a control character":       "redis://u:m4rked\x7f@127.0.0.1:1",
	"a blank":                   "redis://u:m4rked m4rked@127.0.0.1:1",
	"encoded":                   "redis://u:m4rked%2F%40%23m4rked@127.0.0.1:1",
	"a port that is none":       "redis://u:m4rked@127.0.0.1:port",
	"in front of a second host": "redis+cluster://127.0.0.1:1,u:m4rked@127.0.0.1:2",
	"a path":                    "redis://127.0.0.1:1/m4rked",
	"a path below a database":   "redis://127.0.0.1:1/0/m4rked",
	"a fragment":                "redis://127.0.0.1:1/0#m4rked",
	"a parameter":               "redis://127.0.0.1:1?m4rked",
	"the value of a parameter":  "redis://127.0.0.1:1?apikey=m4rked",
	"a malformed query":         "redis://127.0.0.1:1?a=%zz&password=m4rked",
	"a parameter of Sentinel":   "redis+sentinel://127.0.0.1:1?master=m&sentinel_password=m4rked&sentinel_user=m4rked",
	"a password of etcd":        "etcd://u:m4rked@127.0.0.1:1?dial_timeout=1s",
	"a namespace of etcd":       "etcd://127.0.0.1:1/m4rked/?dial_timeout=1s",
	"a password of ZooKeeper":   "zookeeper://u:m4rked@127.0.0.1:1",
	"a path of ZooKeeper":       "zookeeper://127.0.0.1:1//m4rked",
	"a password of memcached":   "memcached://u:m4rked@127.0.0.1:1",
	"a path of memcached":       "memcached://127.0.0.1:1/m4rked",
	"a password of PostgreSQL":  "postgres://u:m4rked@127.0.0.1:1/db",
	"a parameter of PostgreSQL": "postgres://127.0.0.1:1/db?password=m4rked",
	"a database with a slash":   "postgres://u:m4rked/m4rked@127.0.0.1:1/db?sslmode=disable",
	"a password of files":       "file://u:m4rked@host/no?m4rked",
	"a password of memory":      "memory://u:m4rked@x?m4rked",
	"an unknown store":          "mysql://u:m4rked@127.0.0.1:1/m4rked?password=m4rked",
	"no scheme":                 "u:m4rked@127.0.0.1:1",
	"no slashes":                "redis:u:m4rked@127.0.0.1:1",
	"quotes":                    "'redis://u:m4rked@127.0.0.1:1'",
	"a blank in front":          " redis://u:m4rked@127.0.0.1:1",
	"a line end":                "redis://u:m4rked@127.0.0.1:1\n",
	"a reference in the user":   "redis://m4rked${A}@127.0.0.1:1",
	"a reference that is none":  "redis://u:${m4rked@127.0.0.1:1",
	"a bad name of a reference": "redis://u:${m4rked m4rked}@127.0.0.1:1",
}

// sources are the ways to give coord a URL.
var sources = map[string]func(u *user, url string) (flags []string){
	"the environment": func(u *user, url string) []string {
		u.env = append(u.env, "COORD_URL="+url)
		return nil
	},
	"two variables": func(u *user, url string) []string {
		u.env = append(u.env, "COORD_URL_LOCKS="+url, "COORD_URL_LIMITS="+url)
		return nil
	},
	"--url":      func(_ *user, url string) []string { return []string{"--url", url} },
	"coord.yaml": func(u *user, url string) []string { return u.configured("url", url) },
	// A URL in the wrong place of the file.
	"a wrong key": func(u *user, url string) []string { return u.configured("address", url) },
}

// configured writes coord.yaml with one value.
func (u *user) configured(key, value string) []string {
	u.t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		u.t.Fatal(err)
	}
	return []string{"--config", u.write("coord.yaml", key+": "+string(text)+"\n")}
}

// wantHidden runs coord and searches what it writes. It gives how it ended.
func (u *user) wantHidden(args ...string) result {
	u.t.Helper()
	r := u.run(args...)
	u.checkHidden(r, args...)
	return r
}

func (u *user) checkHidden(r result, args ...string) {
	u.t.Helper()
	if said := r.stdout + r.stderr; strings.Contains(said, marked) || said == "" && r.code != 0 && r.code != 3 {
		u.t.Errorf("coord %s: exit status %d\n%s", strings.Join(args, " "), r.code, said)
	}
}

// wantLogHidden searches what the library has warned of.
func wantLogHidden(t *testing.T) {
	t.Helper()
	if said := logged.String(); strings.Contains(said, marked) {
		t.Errorf("it is in the log:\n%s", said)
	}
}

// No message shows a secret that stands in a URL, wherever it stands.
func TestMisplacedSecretsAreHidden(t *testing.T) {
	t.Parallel()
	for name, url := range misplaced {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t, url)
			u.wantHidden("config", "show")
			u.wantHidden("doctor", url)
			u.wantHidden(append(u.configured("failure_policy", url), "config", "show")...)
			wantLogHidden(t)
		})
	}
}

// Nor does it matter how the URL came to coord.
func TestSecretsAreHiddenFromAnySource(t *testing.T) {
	t.Parallel()
	for source, give := range sources {
		t.Run(source, func(t *testing.T) {
			t.Parallel()
			for _, name := range []string{"a password", "a slash", "a malformed query", "no scheme", "a reference that is none"} {
				u := newUser(t, "")
				flags := give(u, misplaced[name])
				u.wantHidden(append(slices.Clone(flags), "config", "show")...)
				u.wantHidden(append(flags, "lock", "a", "--no-wait", "--", "true")...)
				if t.Failed() {
					t.Fatal(name)
				}
			}
		})
	}
}

// everyCommand is each command at work; DIR is the directory of its files. Those that need no store are here too: they look at the environment.
var everyCommand = []string{
	"lock b -n 2 -- true", "lock a --no-wait -- true", "lock a -v --wait 1s -- true", "lead a -v -- true", "lead a --as m:1 -- true", "acquire c --ttl 1s --no-wait", "acquire d --ttl 1s --json",
	"release c --id m/1/1/00000000000000000000000000000000", "limit a --rate 1/1s", "limit a --rate 1/1s --json",
	"limit list", "limit peek a --rate 1/1s", "limit reset a --rate 1/1s --json", "limit charge a --rate 1/1s",
	"status a", "status a --json", "status", "status --json", "break a", "break a --now", "doctor", "doctor --json", "doctor --strict",
	"config show", "config show --json", "config check DIR/coord.yaml", "config schema",
	"stores", "stores --json", "schema postgres", "version", "completion bash", "__complete status a", "help lock",
}

// No command shows the password of its store, or writes it into a file, whether the store serves, refuses the
// password, refuses requests or is down.
func TestNoCommandShowsAPassword(t *testing.T) {
	_, help, _ := strings.Cut(newUser(t, "").run("--help").stdout, "Run under a lock:\n")
	help, _, _ = strings.Cut(help, "Flags:\n")
	commands := regexp.MustCompile(`(?m)^  ([a-z]+) `).FindAllStringSubmatch(help, -1)
	for _, c := range commands {
		if !slices.Contains([]string{"watch", "serve", "demo"}, c[1]) && !slices.ContainsFunc(everyCommand, func(line string) bool { return strings.HasPrefix(line, c[1]) }) {
			t.Errorf("coord %s is not tried", c[1])
		}
	}
	if len(commands) < 10 {
		t.Fatalf("help names only %v", commands)
	}
	const password = marked + "/p@ss w#rd"
	server := testserver.Redis(t, testserver.WithPassword(password)).Addr
	forbid(t, server, password)
	for name, tc := range map[string]struct {
		user, addr string
		status     int // the exit status of coord lock
	}{
		"healthy":            {"default", server, 0},
		"wrong password":     {"nobody", server, 69},
		"requests forbidden": {"reader", server, 69},
		"down":               {"default", "127.0.0.1:1", 69},
	} {
		secrets := map[string]string{"in the URL": url.QueryEscape(password)}
		if name == "healthy" || name == "wrong password" {
			secrets["a variable"], secrets["a file"] = "${PASSWORD}", "${file:DIR/password}"
		}
		for source, secret := range secrets {
			t.Run(name+", "+source, func(t *testing.T) {
				t.Parallel()
				u := newUser(t, "")
				url := "redis://" + tc.user + ":" + strings.ReplaceAll(strings.ReplaceAll(secret, "+", "%20"), "DIR", u.dir) + "@" + tc.addr
				u.env = append(u.env, "COORD_URL="+url)
				u.env = append(u.env, "PASSWORD="+password)
				u.write("password", password+"\n")
				flags := u.configured("url", url)
				for _, command := range everyCommand {
					u.wantHidden(strings.Fields(strings.ReplaceAll(command, "DIR", u.dir))...)
				}
				if source == "in the URL" { // it takes its time
					u.wantHidden("demo")
				}
				u.wantHidden(append(flags, "config", "show")...)
				u.goingOnHidden(2, "watch", "a", "--limit", "a=1/1s", "--json")
				u.env = append(u.env, "COORD_SERVE_LISTEN=127.0.0.1:0")
				u.goingOnHidden(1, "serve")
				if r := u.wantHidden("lock", "b", "--", "true"); r.code != tc.status {
					t.Errorf("coord lock: exit status %d, want %d: %s", r.code, tc.status, r.stderr)
				}
				u.wantFilesHidden()
				wantLogHidden(t)
				if source == "in the URL" { // what is written past the command, as libraries do, is a process's
					args := []string{"lock", "b", "-v", "--wait", "1s", "--", "true"}
					u.checkHidden(u.process(args...), args...)
				}
			})
		}
	}
}

// forbid makes a user of Redis who may do nothing but connect.
func forbid(t *testing.T, addr, password string) {
	t.Helper()
	admin := redis.NewClient(&redis.Options{Addr: addr, Password: password})
	defer admin.Close()
	if err := admin.ACLSetUser(t.Context(), "reader", "on", ">"+password, "~*", "&*", "+@connection").Err(); err != nil {
		t.Fatal(err)
	}
}

// goingOnHidden runs a command that goes on until it has written so many lines, or has ended by itself.
func (u *user) goingOnHidden(lines int, args ...string) {
	u.t.Helper()
	s := u.begin(args...)
	var said string
	for range lines {
		said += <-s.lines // nothing, if it has ended
	}
	s.signal(syscall.SIGTERM)
	r := s.end()
	if said += r.stdout + r.stderr; said == "" || strings.Contains(said, marked) {
		u.t.Errorf("coord %v: exit status %d\n%s", args, r.code, said)
	}
}

// Nor does a process show the password of another store.
func TestNoProcessShowsAPassword(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a password of etcd", "a password of ZooKeeper", "a password of memcached", "a parameter of PostgreSQL"} {
		u := newUser(t, misplaced[name])
		u.checkHidden(u.process("doctor"), name)
	}
}

// wantFilesHidden searches what the commands have written.
func (u *user) wantFilesHidden() {
	u.t.Helper()
	files := os.DirFS(u.dir)
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == "password" || path == "coord.yaml" {
			return err
		}
		text, err := fs.ReadFile(files, path)
		if strings.Contains(string(text), marked) {
			u.t.Errorf("it is in %s:\n%s", path, text)
		}
		return err
	})
	if err != nil {
		u.t.Error(err)
	}
}
