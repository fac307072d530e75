package middleware

import (
	"context"
	"time"
)

// DefaultTimeout is the longest that a request waits for the store of its limits. A store that serves answers in
// milliseconds, and takes about a second where a server of it fails over.
const DefaultTimeout = time.Second

// Within bounds what asks the store: 0 is DefaultTimeout, and a negative timeout is no bound.
func Within(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	switch {
	case timeout < 0:
		return ctx, func() {}
	case timeout == 0:
		timeout = DefaultTimeout
	}
	return context.WithTimeout(ctx, timeout)
}
