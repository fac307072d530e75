package exampletest

import (
	"os"
	"strings"
	"testing"
)

// EveryStore is Stores, and before them the one that a process has for itself.
var EveryStore = append([]string{"memory"}, Stores...)

// Section is the part of a page of the documentation that is written from what was measured.
type Section struct {
	Page, Begin, End string
	Remake           string // the command that writes it
}

// Says demands that the section is what was measured, or makes it so.
func (s Section) Says(t *testing.T, want string, update bool) {
	t.Helper()
	text, err := os.ReadFile(s.Page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), s.Begin)
	is, after, ended := strings.Cut(rest, s.End)
	if !ok || !ended {
		t.Fatalf("%s has no place for what was measured", s.Page)
	}
	if update {
		if err := os.WriteFile(s.Page, []byte(before+s.Begin+want+s.End+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if is != want {
		t.Errorf("%s says\n%s\nand measured was\n%s\nrun %s", s.Page, is, want, s.Remake)
	}
}

// Named is the store with its version, if that says more than the store.
func Named(store, server string) string {
	if strings.Contains(strings.ToLower(server), store) {
		return server
	}
	return store
}
