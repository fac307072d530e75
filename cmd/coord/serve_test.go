package main_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/coordgo/coord/server/coordpb"
)

// serving is a coord serve that was started as a process.
type serving struct {
	*running
	url string
}

// serve starts coord serve on the user's store, at a port of its own.
func (u *user) serve(section string) *serving {
	u.t.Helper()
	u.env = append(u.env, "COORD_SERVE_LISTEN=127.0.0.1:0")
	r := u.spawn(u.command("serve", "--config", u.write("coord.yaml", section)))
	u.t.Cleanup(func() { _ = r.cmd.Process.Kill(); _ = r.cmd.Wait() })
	addr, ok := strings.CutPrefix(r.line(), "listening on ")
	if !ok {
		u.t.Fatalf("its first line does not say where it listens; stderr: %s", r.stderr)
	}
	return &serving{r, "http://" + addr}
}

// post makes a request.
func (s *serving) post(path, body string) (status int, answer map[string]any) {
	s.t.Helper()
	got, err := http.Post(s.url+path, "application/json", strings.NewReader(body))
	if err != nil {
		s.t.Fatalf("%v; stderr: %s", err, s.stderr)
	}
	defer got.Body.Close()
	if err := json.NewDecoder(got.Body).Decode(&answer); err != nil {
		s.t.Fatal(err)
	}
	return got.StatusCode, answer
}

func (s *serving) signal(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// draining waits until the server grants nothing more.
func (s *serving) draining() {
	s.t.Helper()
	for {
		got, err := http.Get(s.url + "/readyz")
		if err != nil {
			s.t.Fatal(err)
		}
		got.Body.Close()
		if got.StatusCode == http.StatusServiceUnavailable {
			return
		}
	}
}

// After TERM a remote holder is heard until it has released.
func TestServeDrains(t *testing.T) {
	s := newUser(t, "file://"+t.TempDir()).serve("")
	status, held := s.post("/v1/locks/acquire", `{"key":"job","ttl_ms":60000}`)
	if status != http.StatusOK {
		t.Fatalf("acquire: %d %v", status, held)
	}
	id := `{"id":"` + held["id"].(string) + `"}`
	s.signal(syscall.SIGTERM)
	s.draining()
	if status, renewed := s.post("/v1/locks/renew", id); status != http.StatusOK || renewed["draining"] != true {
		t.Errorf("renew: %d %v", status, renewed)
	}
	if status, released := s.post("/v1/locks/release", id); status != http.StatusOK {
		t.Errorf("release: %d %v", status, released)
	}
	if code := exitCode(t, s.cmd.Wait()); code != 0 {
		t.Errorf("exit status %d; stderr: %s", code, s.stderr)
	}
}

// With an address for gRPC a client gets there what it gets by HTTP.
func TestServeGRPC(t *testing.T) {
	s := newUser(t, "memory://").serve("serve: {grpc_listen: '127.0.0.1:0'}")
	addr, ok := strings.CutSuffix(strings.TrimPrefix(s.line(), "listening on "), " (gRPC)")
	if !ok {
		t.Fatalf("its second line does not say where it listens; stderr: %s", s.stderr)
	}
	cc, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	locks := coordpb.NewLocksClient(cc)
	a, err := locks.Acquire(t.Context(), &coordpb.AcquireRequest{Key: "job"})
	if err != nil {
		t.Fatal(err)
	}
	id := `{"id":"` + a.GetId() + `"}`
	if status, renewed := s.post("/v1/locks/renew", id); status != http.StatusOK || renewed["token"] != strconv.FormatInt(a.GetToken(), 10) {
		t.Errorf("renew: %d %v", status, renewed)
	}
	if _, err := locks.Release(t.Context(), &coordpb.ReleaseRequest{Id: a.GetId()}); err != nil {
		t.Error(err)
	}
	s.signal(syscall.SIGTERM)
	if code := exitCode(t, s.cmd.Wait()); code != 0 {
		t.Errorf("exit status %d; stderr: %s", code, s.stderr)
	}
}

// A second signal ends the server at once, and the hold stays taken until its lease ends.
func TestServeLeavesLeases(t *testing.T) {
	u := newUser(t, "file://"+t.TempDir())
	s := u.serve("")
	if status, held := s.post("/v1/locks/acquire", `{"key":"job","ttl_ms":3600000}`); status != http.StatusOK {
		t.Fatalf("acquire: %d %v", status, held)
	}
	s.signal(syscall.SIGTERM)
	s.draining()
	s.signal(syscall.SIGTERM)
	if code := exitCode(t, s.cmd.Wait()); code != 0 || !strings.Contains(s.stderr.String(), "the server ended before the holds of its callers") {
		t.Errorf("exit status %d; stderr: %s", code, s.stderr)
	}
	if r := u.run("lock", "job", "--no-wait", "--", "true"); r.code != 75 {
		t.Errorf("the lock after the server's end: %+v", r)
	}
}

// The page shows what the server has granted, and counts what it denies.
func TestServeShowsPage(t *testing.T) {
	s := newUser(t, "memory://").serve("limits: {mail: 1/1h}")
	s.post("/v1/locks/acquire", `{"key":"job","name":"web-3"}`)
	for range 2 {
		s.post("/v1/limits/take", `{"key":"mail"}`)
	}
	got, err := http.Get(s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	page, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"job": true, "web-3": true, "0 of 1": true, "<dt>Denied a second</dt><dd>": true, "<dd>–</dd>": false} {
		if strings.Contains(string(page), text) != want {
			t.Errorf("%q on the page: %v\n%s", text, !want, page)
		}
	}
}

// A file that changes is taken with its limits and callers, and one with a mistake is not.
func TestServeReloads(t *testing.T) {
	t.Parallel()
	u := newUser(t, "memory://")
	const ops = "serve: {callers: [{name: ops, token: the-token-of-ops, allow: [{rights: [take]}]}]}\n"
	s := u.serve("limits: {a: 1/1h}\n" + ops)
	take := func(token, key string) (status int) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/limits/take", strings.NewReader(`{"key":"`+key+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token)
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		got.Body.Close()
		return got.StatusCode
	}
	says := func(text string) {
		t.Helper()
		if !eventually(func() bool { return strings.Contains(s.stderr.String(), text) }) {
			t.Fatalf("it does not say %q: %s", text, s.stderr)
		}
	}
	u.write("coord.yaml", "limits: {b: 1/1h}\n"+strings.ReplaceAll(ops, "the-token", "another-token"))
	says("the file was reloaded")
	for _, tc := range []struct {
		token, key string
		status     int
	}{{"the-token-of-ops", "b", 401}, {"another-token-of-ops", "a", 400}, {"another-token-of-ops", "b", 200}} {
		if got := take(tc.token, tc.key); got != tc.status {
			t.Errorf("%s with %s: %d, want %d", tc.key, tc.token, got, tc.status)
		}
	}
	u.write("coord.yaml", "limits: {b: 1/1h\n"+ops)
	says("the file was not reloaded")
	if got := take("another-token-of-ops", "b"); got != 200 {
		t.Errorf("after a file with a mistake: %d", got)
	}
}

// A configuration that cannot be served is refused.
func TestServeRefuses(t *testing.T) {
	u := newUser(t, "memory://")
	for section, code := range map[string]int{
		"serve: {listen: '0.0.0.0:0'}": 78,
		`serve: {callers: [{name: a, token: "${NOT_THERE}", allow: [{rights: [read]}]}]}`:                   78,
		"serve: {listen: '127.0.0.1:0', tls: {certificate: /nowhere, key: /nowhere}}":                       78,
		"serve: {listen: 'unix:/nowhere/at/all'}":                                                           69,
		`serve: {listen: 'unix:/nowhere', callers: [{name: a, token: b, allow: [{rights: [everything]}]}]}`: 78,
	} {
		if r := u.run("serve", "--config", u.write("coord.yaml", section)); r.code != code || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%s: %+v, want %d and one line", section, r, code)
		}
	}
}

var (
	runBlock = regexp.MustCompile("(?s)<!-- run -->\n\n```console\n(.*?)```")
	pageYAML = regexp.MustCompile("(?s)```yaml\n(.*?)```")
)

// varies are what differs from run to run on the page.
var varies = []struct {
	pattern *regexp.Regexp
	shown   string
}{
	{regexp.MustCompile(`"id":"[0-9a-f]{32}"`), `"id":"ID"`},
	{regexp.MustCompile(`"id":"[^"]*/[^"]*"`), `"id":"STORE"`},
	{regexp.MustCompile(`"token":"[0-9]+"`), `"token":"N"`},
	{regexp.MustCompile(`token is [0-9]+`), `token is N`},
	{regexp.MustCompile(`"since":"[^"]+"`), `"since":"TIME"`},
	{regexp.MustCompile(`"message":"coord:.*?",`), `"message":"TEXT",`},
	{regexp.MustCompile(`"(remaining_ms|reset_after_ms|left_ms|pid)":[0-9]+`), `"$1":N`},
	{regexp.MustCompile(`"remaining":1[0-9]{4}`), `"remaining":N`},
}

// What the page for other languages shows is what happens.
func TestServePage(t *testing.T) {
	need(t, "curl")
	page, err := os.ReadFile("../../docs/serve.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := runBlock.FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 3 {
		t.Fatalf("%d blocks to run on the page", len(blocks))
	}
	u := newUser(t, "memory://")
	s := u.serve(pageYAML.FindStringSubmatch(string(page))[1])
	held := regexp.MustCompile(`"id":"([0-9a-f]{32})"`)
	for _, block := range blocks {
		lines, id := strings.Split(strings.TrimSpace(block[1]), "\n"), ""
		for i := 0; i+1 < len(lines); i += 2 {
			cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.TrimPrefix(lines[i], "$ "))
			cmd.Env = append(u.env, "COORD="+s.url, "COORD_SERVE="+s.url, "ID="+id, "PATH="+example(t, "shell")+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", lines[i], err, out)
			}
			if m := held.FindSubmatch(out); m != nil {
				id = string(m[1])
			}
			got := strings.TrimSpace(string(out))
			for _, v := range varies {
				got = v.pattern.ReplaceAllString(got, v.shown)
			}
			if got != lines[i+1] {
				t.Errorf("%s\n got: %s\nwant: %s", lines[i], got, lines[i+1])
			}
		}
	}
}

// So is its program in Python.
func TestServePagePython(t *testing.T) {
	page, err := os.ReadFile("../../docs/serve.md")
	if err != nil {
		t.Fatal(err)
	}
	program := regexp.MustCompile("(?s)```python\n(.*?)```").FindStringSubmatch(string(page))[1]
	u := newUser(t, "memory://")
	s := u.serve(pageYAML.FindStringSubmatch(string(page))[1])
	cmd := exec.CommandContext(t.Context(), need(t, "python3"), "-c", strings.ReplaceAll(program, "http://127.0.0.1:8470", s.url))
	cmd.Env = append(u.env, "PYTHONPATH="+example(t, "python"), "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if lines := strings.Split(string(out), "\n"); err != nil || len(lines) != 5 || !strings.HasPrefix(lines[2], "part 2 with the token ") || lines[3] != "taken" {
		t.Errorf("%v\n%s", err, out)
	}
}
