//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/coordgo/coord/examples/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func TestTheFrozenHolderIsRefused(t *testing.T) {
	exampletest.On(t, exampletest.Stores, func(t *testing.T, url string) {
		said := exampletest.Kept(t, "--url", url)
		if !strings.Contains(said, "A would pay out 80 and write 20, and is refused\n") ||
			!strings.Contains(said, "of 100, 60 was paid out, and the account says 40") {
			t.Error("it does not say that A was refused")
		}
	})
}

func TestWithoutTheGuardTheFrozenHolderIsBelieved(t *testing.T) {
	said := exampletest.Broken(t, "--without-guard")
	if !strings.Contains(said, "of 100, 140 was paid out, and the account says 20") {
		t.Error("it does not say that both were paid")
	}
}
