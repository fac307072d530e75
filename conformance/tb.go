package conformance

import "context"

// TB is what a harness is given of a running case. [*testing.T] satisfies it, so
// that helpers written for tests can be shared; a case that runs outside go test
// has another one.
type TB interface {
	Helper()
	Name() string
	// Context ends before the functions of Cleanup run.
	Context() context.Context
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	// Fatalf ends the case. Only the goroutine that runs the case, and what it
	// calls, may use it.
	Fatalf(format string, args ...any)
	Failed() bool
	Cleanup(func())
	TempDir() string
}
