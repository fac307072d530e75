package containers

import (
	"strings"
	"testing"

	"github.com/coordgo/coord/conformance"
)

// selected tells which cases run on a store in a container. All cases run on the same store as a process, beside each
// backend. A container differs in how it is killed, paused, wiped and reached. Its cases are therefore:
//
//   - those with a hook: a fault, or another process
//   - those about many callers, whose connections all pass the engine's proxy
//   - the first of each clause, in the order of ids, that is not slow, so that no clause is left out
func selected() func(conformance.Case) bool {
	shown := make(map[string]bool) // clauses
	ids := make(map[string]bool)
	for _, c := range conformance.Cases() {
		first := !c.Slow && !shown[c.Clause]
		if first {
			shown[c.Clause] = true
		}
		ids[c.ID] = first || len(c.Hooks) > 0 || strings.HasPrefix(c.Name, "many-")
	}
	return func(c conformance.Case) bool { return ids[c.ID] }
}

// tellSelection logs which cases do not run here. Package testreport shows the first line beside the store.
func tellSelection(t *testing.T, c *Container, only func(conformance.Case) bool) {
	t.Helper()
	var out []string
	all := conformance.Cases()
	for _, k := range all {
		if !only(k) {
			out = append(out, k.ID)
		}
	}
	t.Logf("containers: a container of %s, %d of %d cases, the others on a process only", c.image(), len(all)-len(out), len(all))
	t.Logf("on a process only: %s", strings.Join(out, ", "))
}

// The selection has each clause, each hook that a container has, and one of many callers on each half of a store.
func TestSelection(t *testing.T) {
	only := selected()
	clauses, hooks := make(map[string]bool), make(map[conformance.Hook]bool)
	many, n := make(map[string]bool), 0
	for _, c := range conformance.Cases() {
		if !only(c) {
			continue
		}
		n++
		clauses[c.Clause] = true
		for _, h := range c.Hooks {
			hooks[h] = true
		}
		if family, _, _ := strings.Cut(c.ID, "-"); strings.HasPrefix(c.Name, "many-") {
			many[family] = true
		}
	}
	for _, c := range conformance.Cases() {
		if !clauses[c.Clause] {
			t.Errorf("no case of clause %s", c.Clause)
		}
		for _, h := range c.Hooks {
			if !hooks[h] {
				t.Errorf("%s: no case with the hook %s", c.ID, h)
			}
		}
	}
	if !many["LOCK"] || !many["LIMIT"] {
		t.Errorf("many callers of %v, want both halves", many)
	}
	if all := len(conformance.Cases()); n > all/2 {
		t.Errorf("%d of %d cases are selected, want half at most", n, all)
	}
}
