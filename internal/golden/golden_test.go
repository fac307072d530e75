package golden

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// told is a test that remembers whether it has failed.
type told struct {
	testing.TB
	failed bool
}

func (t *told) Helper()               {}
func (t *told) Errorf(string, ...any) { t.failed = true }
func (t *told) Fatalf(string, ...any) { t.failed = true; runtime.Goexit() }
func (t *told) Fatal(...any)          { t.failed = true; runtime.Goexit() }

// complains reports whether fn fails its test.
func complains(fn func(testing.TB)) bool {
	rec := new(told)
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn(rec)
	}()
	<-done
	return rec.failed
}

// updating lets tests write, as -update does, until t ends.
func updating(t *testing.T, yes bool) {
	was := *update
	*update = yes
	t.Cleanup(func() { *update = was })
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page")
	write := func(text string) func(testing.TB) { return func(tb testing.TB) { File(tb, path, text) } }
	updating(t, false)
	if !complains(write("a")) {
		t.Error("a file that is missing was accepted")
	}
	updating(t, true)
	if complains(write("a")) {
		t.Error("a missing file was not written")
	}
	updating(t, false)
	if complains(write("a")) || !complains(write("b")) {
		t.Error("the same text was refused, or another accepted")
	}
}

func TestSection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page")
	if err := os.WriteFile(path, []byte("head\n<\nold\n>\nfoot\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	section := func(end, want string) func(testing.TB) {
		return func(tb testing.TB) { Section(tb, path, "<\n", end, want) }
	}
	updating(t, false)
	if !complains(section(">\n", "new\n")) || complains(section(">\n", "old\n")) || !complains(section("nowhere", "old\n")) {
		t.Error("the section was not compared with what it holds")
	}
	updating(t, true)
	if complains(section(">\n", "new\n")) {
		t.Error("the section was not written")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "head\n<\nnew\n>\nfoot\n" {
		t.Errorf("%q, %v", text, err)
	}
}
