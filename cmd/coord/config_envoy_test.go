package main_test

import (
	"os"
	"path/filepath"
	"testing"
)

// The files of Envoy's limits are checked with the file that names them, where they are on this machine.
func TestConfigCheckEnvoy(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	limits := filepath.Join(u.dir, "limits.yaml")
	path := u.write("coord.yaml", "url: redis://h\nserve: {envoy: {files: ["+limits+"]}}\n")
	u.run("config", "check", path).want(t, 0, "serve.envoy.files", "coord: serve.envoy.files were not checked: ")
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
