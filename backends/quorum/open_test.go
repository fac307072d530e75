package quorum_test

import (
	"context"
	"errors"
	"testing"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/backends/quorum"
	"github.com/coordgo/coord/driver"
)

// What is no quorum is the caller's mistake.
func TestBadMembers(t *testing.T) {
	t.Parallel()
	open := func(urls ...string) func() error {
		return func() error {
			_, _, err := quorum.Open(context.Background(), urls...)
			return err
		}
	}
	for name, call := range map[string]func() error{
		"two members":          func() error { _, err := quorum.New(memory.New(), memory.New()); return err },
		"nil members":          func() error { _, err := quorum.New(nil, nil, nil); return err },
		"no URL":               open(),
		"a store that is none": open("memory://", "memory://", "what://"),
		"a member again":       open("memory://a", "memory://b", "memory://a?prefix=b/"),
		"two prefixes":         open("memory://a", "memory://b?prefix=b/", "memory://c"),
	} {
		if err := call(); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v, want what is ErrInvalid", name, err)
		}
	}
}
