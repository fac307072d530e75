// Package golden keeps files that code writes as the code would write them: a test that finds one to differ fails, or,
// with the flag -update, writes it.
package golden

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the files that code writes, and do not complain of them")

// File compares a file with what it is to hold.
func File(t testing.TB, path, want string) {
	t.Helper()
	switch got, err := os.ReadFile(path); {
	case err != nil && !(*update && os.IsNotExist(err)):
		t.Fatal(err)
	case err == nil && string(got) == want:
	case *update:
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is not what the code says: run this test with -update", path)
	}
}

// Section compares what stands in a file between two lines, which stay.
func Section(t testing.TB, path, begin, end, want string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), begin)
	_, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		t.Fatalf("%s has no lines %q and %q", path, begin, end)
	}
	File(t, path, before+begin+want+end+after)
}
