//go:build !linux

package testserver

import (
	"errors"
	"testing"
)

// network is there on Linux only.
type network struct{ namespaces, addresses []string }

func newNetwork(t testing.TB, _ int) *network {
	t.Helper()
	t.Skip("testserver: no network of its own: " + lacksNetwork())
	return nil
}

func lacksNetwork() string { return "only Linux has network namespaces" }

var errNoNetwork = errors.New("no network namespaces here")

func (*network) drop(int, int) error { return errNoNetwork }
func (*network) dropAll(int) error   { return errNoNetwork }
func (*network) heal() error         { return errNoNetwork }
