// Package middlewaretest is what the tests of middleware for HTTP and gRPC begin with.
package middlewaretest

import (
	"testing"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/rules"
)

// Client is a client over a store of its own, which is closed with the test.
func Client(t testing.TB, opts ...coord.Option) *coord.Client {
	t.Helper()
	return Over(t, memory.New(), opts...)
}

// Over is a client over b, which is closed with the test.
func Over(t testing.TB, b driver.Backend, opts ...coord.Option) *coord.Client {
	t.Helper()
	c, err := coord.New(b, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Chain is a chain of rules, which are in order.
func Chain(t testing.TB, list ...rules.Rule) *rules.Chain {
	t.Helper()
	c, err := rules.New(list...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
