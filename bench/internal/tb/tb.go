// Package tb stands for a test in a program that starts servers with internal/testserver.
package tb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
)

// TB is what internal/testserver wants of a test, outside of one. Whatever of testing.TB it does
// not have panics when it is called.
type TB struct {
	testing.TB
	ctx      context.Context
	cleanups []func()
	failed   bool
}

// New makes one, which has to be ended.
func New(ctx context.Context) *TB { return &TB{ctx: ctx} }

// errFatal is what a call of Fatal panics with.
type errFatal struct{ error }

func (t *TB) Helper()                           {}
func (t *TB) Name() string                      { return "bench" }
func (t *TB) Context() context.Context          { return t.ctx }
func (t *TB) Logf(string, ...any)               {}
func (t *TB) Log(...any)                        {}
func (t *TB) Failed() bool                      { return t.failed }
func (t *TB) Cleanup(f func())                  { t.cleanups = append(t.cleanups, f) }
func (t *TB) Error(args ...any)                 { t.fail(fmt.Sprintln(args...)) }
func (t *TB) Errorf(format string, args ...any) { t.fail(fmt.Sprintf(format, args...)) }
func (t *TB) Fatal(args ...any)                 { panic(errFatal{errors.New(fmt.Sprint(args...))}) }
func (t *TB) Fatalf(format string, args ...any) { panic(errFatal{fmt.Errorf(format, args...)}) }
func (t *TB) Skip(args ...any)                  { t.Fatal(args...) }
func (t *TB) Skipf(format string, args ...any)  { t.Fatalf(format, args...) }

func (t *TB) fail(text string) {
	t.failed = true
	fmt.Fprintln(os.Stderr, "bench:", text)
}

// TempDir is removed in the end.
func (t *TB) TempDir() string {
	dir, err := os.MkdirTemp("", "coord-bench-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// End runs the cleanups, the last first.
func (t *TB) End() {
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i]()
	}
	t.cleanups = nil
}

// Catch makes an error of a call of Fatal. It is deferred.
func (t *TB) Catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case errFatal:
		*err = r.error
	default:
		panic(r)
	}
}
