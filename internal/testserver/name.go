package testserver

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

// names are those of the tests that run.
var names = struct {
	sync.Mutex
	of   map[string]string
	made int
}{of: make(map[string]string)}

// NameOf gives a name that no other test has, for what t stores on a [Shared] server: a prefix, a root, a schema. A part of a
// test has the name that the test has asked for, if it has.
func NameOf(t testing.TB) string {
	names.Lock()
	defer names.Unlock()
	for test, more := t.Name(), true; more; {
		if name := names.of[test]; name != "" {
			return name
		}
		i := strings.LastIndexByte(test, '/')
		if more = i >= 0; more {
			test = test[:i]
		}
	}
	test := t.Name()
	names.made++
	names.of[test] = fmt.Sprintf("test_%d_%d", os.Getpid(), names.made)
	t.Cleanup(func() {
		names.Lock()
		defer names.Unlock()
		delete(names.of, test)
	})
	return names.of[test]
}
