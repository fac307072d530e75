// Package middlewaretest is what the tests of middleware for HTTP and gRPC begin with.
package middlewaretest

import (
	"context"
	"testing"
	"time"

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

// Silent is a store of limits that never answers.
type Silent struct{ driver.Unimplemented }

// Take waits for the end of ctx.
func (Silent) Take(ctx context.Context, _ string, _ driver.Limit, _ []driver.Ask) (driver.Taken, error) {
	<-ctx.Done()
	return driver.Taken{}, ctx.Err()
}

// TakeOne waits for the end of ctx.
func (Silent) TakeOne(ctx context.Context, _ string, _ driver.Limit, _ driver.Ask) (driver.TakenOne, error) {
	<-ctx.Done()
	return driver.TakenOne{}, ctx.Err()
}

// Reset waits for the end of ctx.
func (Silent) Reset(ctx context.Context, _ string, _ driver.Limit) error {
	<-ctx.Done()
	return ctx.Err()
}

// Info claims nothing.
func (Silent) Info() driver.Info {
	return driver.Info{Name: "silent", MaxTTL: time.Hour, Claims: driver.Claims{driver.ScopeProcess}}
}

// Close does nothing.
func (Silent) Close() error { return nil }
