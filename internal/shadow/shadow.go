// Package shadow marks calls on limits for rules in shadow mode, whose denials nobody acts upon.
package shadow

import "context"

type key struct{}

// With marks the calls that get ctx.
func With(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, true) }

// In reports whether ctx is marked.
func In(ctx context.Context) bool { return ctx.Value(key{}) != nil }
