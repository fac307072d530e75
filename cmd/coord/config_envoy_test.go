package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The files of Envoy's limits are checked with the file that names them, where they are on this machine.
func TestConfigCheckEnvoy(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	limits := filepath.Join(u.dir, "limits.yaml")
	path := u.write("coord.yaml", "url: redis://h\nserve: {envoy: {files: ["+limits+"]}}\n")
	u.run("config", "check", path).want(t, 0, "serve.envoy.files", "coord: serve.envoy.files: "+limits+" is not on this machine, and was not checked\n")
	for _, tc := range []struct {
		text   string
		code   int
		stderr string
	}{
		{"domain: edge\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 5}}]\n", 0, ""},
		{"domain: edge\ndescriptors: [{key: user, rate_limit: {unit: fortnight, requests_per_unit: 5}}]\n", 78, "coord: " + limits + ":2: "},
		{"domain: edge\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 5, lease: true}}]\n", 78, "a key of counting: exact"},
	} {
		if err := os.WriteFile(limits, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		u.run("config", "check", path).want(t, tc.code, "", tc.stderr)
	}
	u.write("coord.yaml", "url: redis://h\noverrides: true\nserve: {envoy: {files: ["+limits+"]}}\n")
	if err := os.WriteFile(limits, []byte("domain: edge\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	u.run("config", "check", path).want(t, 78, "", `domain "edge": overrides: true goes with counting: exact alone`)
}

// Each file's mistake is shown, also beside a path that is not here. A link in a directory that leads nowhere is one.
func TestConfigCheckAllEnvoy(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	dir := filepath.Join(u.dir, "limits")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"a.yaml": "domain: a\nlimits: []\n", "b.yaml": "domain: b\n", "c.yaml": "domains: c\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := u.write("coord.yaml", "url: redis://h\nserve: {envoy: {files: ["+u.dir+"/absent, "+dir+"]}}\n")
	lines := func(want ...string) {
		t.Helper()
		r := u.run("config", "check", path)
		got := strings.Split(strings.TrimSpace(r.stderr), "\n")
		if r.code != 78 || len(got) != len(want) {
			t.Fatalf("exit status %d, want 78 and %d lines:\n%s", r.code, len(want), r.stderr)
		}
		for i, text := range want {
			if !strings.Contains(got[i], text) {
				t.Errorf("%s: want %s", got[i], text)
			}
		}
	}
	lines("absent is not on this machine", "a.yaml:2: ", "c.yaml:1: ")
	if err := os.Symlink("nowhere", filepath.Join(dir, "d.yaml")); err != nil {
		t.Fatal(err)
	}
	lines("absent is not on this machine", "d.yaml: no such file")
}
