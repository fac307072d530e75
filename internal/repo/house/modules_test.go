package house

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// modFile is what "go mod edit -json" tells of a go.mod.
type modFile struct {
	Go      string
	Require []struct {
		Path, Version string
		Indirect      bool
	}
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
}

func (m *modFile) read(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = "../../.."
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, m)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Every module requires its siblings at the version that go.work replaces, and replaces nothing itself: "go install" refuses a
// command whose go.mod does.
func TestModulesAgree(t *testing.T) {
	var work modFile
	work.read(t, "work", "edit", "-json")
	released := make(map[string]string)
	for _, r := range work.Replace {
		released[r.Old.Path] = r.Old.Version
	}
	if len(released) < 10 {
		t.Fatalf("go.work replaces %d modules", len(released))
	}
	var files []string
	for _, dirs := range []string{"", "*/", "*/*/", "server/envoy/testdata/record/", "bench/envoy/originals/*/"} {
		found, err := filepath.Glob("../../../" + dirs + "go.mod")
		if err != nil || len(found) == 0 {
			t.Fatal(dirs, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		path, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		var m modFile
		m.read(t, "mod", "edit", "-json", path)
		if m.Go != work.Go || len(m.Replace) > 0 {
			t.Errorf("%s: go %s and %d replaced: want %s and none", file, m.Go, len(m.Replace), work.Go)
		}
		for _, r := range m.Require {
			if strings.HasPrefix(r.Path, module) && released[r.Path] != r.Version {
				t.Errorf("%s requires %s %s: want %q", file, r.Path, r.Version, released[r.Path])
			}
		}
	}
}

// What the root module requires is in the go.mod of everybody who uses coord.
func TestRootRequiresLittle(t *testing.T) {
	want := []string{
		"github.com/anishathalye/porcupine", "github.com/santhosh-tekuri/jsonschema/v6", "go.uber.org/goleak", "go.yaml.in/yaml/v3",
		"golang.org/x/sys", "golang.org/x/text", "pgregory.net/rapid",
	}
	var m modFile
	m.read(t, "mod", "edit", "-json", "go.mod")
	for _, r := range m.Require {
		if !slices.Contains(want, r.Path) {
			t.Errorf("the root module requires %s: a test that needs it belongs into internal/repo", r.Path)
		}
	}
}
