//go:build unix

package main

import (
	"testing"

	"github.com/coordgo/coord/examples/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func TestTheFrozenHolderIsRefused(t *testing.T) {
	exampletest.Kept(t, "of 100, 60 was paid out, and the account says 40", "--ttl", "1s")
}

func TestWithoutTheGuardTheFrozenHolderIsBelieved(t *testing.T) {
	exampletest.Broken(t, "--without-guard", "--ttl", "1s")
}
