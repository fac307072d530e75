package config_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/config"
)

const threeMemories = "quorum: [memory://q1, memory://q2, memory://q3]\n"

func TestQuorum(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "coord.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, limits := range []bool{false, true} {
		text := threeMemories
		if limits {
			text += "url: memory://q1\n"
		}
		write(text)
		c, err := config.Open(ctx, path)
		if err != nil {
			t.Fatal(err)
		}
		ran, err := coord.TryDo(ctx, c, "k", func(context.Context) error { return nil })
		if !ran || err != nil {
			t.Errorf("TryDo: %v, %v", ran, err)
		}
		if _, err := c.Allow(ctx, "k", coord.PerMinute(1)); errors.Is(err, coord.ErrUnsupported) == limits {
			t.Errorf("Allow, with a store of limits %v: %v", limits, err)
		}
		write(strings.Replace(text, "q3", "q4", 1))
		if err := c.Reload(ctx); err == nil || !strings.Contains(err.Error(), "coord.yaml:1: quorum: other members") {
			t.Errorf("Reload of other members: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestQuorumMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"quorum: memory://a\n":                                                   "coord.yaml:1: quorum: want a list of three stores or more",
		"quorum: [memory://a, memory://b]\n":                                     "coord.yaml:1: quorum: want a list of three stores or more",
		"quorum: [memory://a, memory://b, 7]\n":                                  "coord.yaml:1: quorum.2: not a string",
		"quorum:\n- memory://a\n- memory://b\n- memory://a\n":                    "coord.yaml:4: quorum.2: a member again",
		threeMemories + "url: {locks: memory://a, limits: memory://b}\n":         "coord.yaml:1: quorum: a second store of locks in url.locks",
		"prefix: a/\nquorum: [memory://a, memory://b, 'memory://c?prefix=b/']\n": `prefix "a/" contradicts prefix "b/" in quorum.2`,
	} {
		path := filepath.Join(t.TempDir(), "coord.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := config.Load(path); !errors.Is(err, coord.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// COORD_URL replaces the members too.
func TestQuorumEnvironment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "coord.yaml")
	if err := os.WriteFile(path, []byte(threeMemories), 0o600); err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]int{"": 3, "memory://one": 1} {
		c, err := config.LoadEnv(t.Context(), path, func(name string) (string, bool) {
			if name != config.EnvURL {
				return "", false
			}
			return value, true
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Stores(); len(got) != want {
			t.Errorf("%s=%q: stores %v, want %d", config.EnvURL, value, got, want)
		}
	}
}
