package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// need gives the path of a program of callers in other languages.
func need(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("COORD_TEST_REQUIRE"), ","), "clients") {
			t.Fatalf("there is no %s, and COORD_TEST_REQUIRE names clients", name)
		}
		t.Skipf("unsupported: there is no %s here", name)
	}
	return path
}

// example is a file of the examples.
func example(t *testing.T, path ...string) string {
	t.Helper()
	abs, err := filepath.Abs(filepath.Join(append([]string{"..", "..", "examples"}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// The example in Python does what it says, on servers that are killed and networks that lose answers.
func TestServePython(t *testing.T) {
	t.Parallel()
	u := newRedisUser(t)
	cmd := exec.CommandContext(t.Context(), need(t, "python3"), "-m", "unittest", "-v", "test_coord")
	cmd.Dir = example(t, "python")
	cmd.Env = append(u.env, "COORD="+u.coord(), "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if text := string(out); err != nil || !strings.Contains(text, "\nOK\n") || strings.Contains(text, "skipped") {
		t.Errorf("%v\n%s", err, text)
	}
}
