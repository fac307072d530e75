package testserver

import "testing"

func TestNameOf(t *testing.T) {
	seen := make(map[string]bool)
	for _, part := range []string{"a", "b"} {
		t.Run(part, func(t *testing.T) {
			name := NameOf(t)
			if seen[name] {
				t.Errorf("another test has the name %s", name)
			}
			seen[name] = true
			t.Run("part", func(t *testing.T) {
				if of := NameOf(t); of != name {
					t.Errorf("a part of the test: %s, want %s", of, name)
				}
			})
		})
	}
}
