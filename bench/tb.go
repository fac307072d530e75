package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
)

// tb is what internal/testserver wants of a test, outside of one. Whatever of testing.TB it does
// not have panics when it is called.
type tb struct {
	testing.TB
	ctx      context.Context
	cleanups []func()
	failed   bool
}

func newTB(ctx context.Context) *tb { return &tb{ctx: ctx} }

// errFatal is what a call of Fatal panics with.
type errFatal struct{ error }

func (t *tb) Helper()                           {}
func (t *tb) Name() string                      { return "bench" }
func (t *tb) Context() context.Context          { return t.ctx }
func (t *tb) Logf(string, ...any)               {}
func (t *tb) Log(...any)                        {}
func (t *tb) Failed() bool                      { return t.failed }
func (t *tb) Cleanup(f func())                  { t.cleanups = append(t.cleanups, f) }
func (t *tb) Error(args ...any)                 { t.fail(fmt.Sprintln(args...)) }
func (t *tb) Errorf(format string, args ...any) { t.fail(fmt.Sprintf(format, args...)) }
func (t *tb) Fatal(args ...any)                 { panic(errFatal{errors.New(fmt.Sprint(args...))}) }
func (t *tb) Fatalf(format string, args ...any) { panic(errFatal{fmt.Errorf(format, args...)}) }
func (t *tb) Skip(args ...any)                  { t.Fatal(args...) }
func (t *tb) Skipf(format string, args ...any)  { t.Fatalf(format, args...) }

func (t *tb) fail(text string) {
	t.failed = true
	fmt.Fprintln(os.Stderr, "bench:", text)
}

// TempDir is removed in the end.
func (t *tb) TempDir() string {
	dir, err := os.MkdirTemp("", "coord-bench-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// end runs the cleanups, the last first.
func (t *tb) end() {
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i]()
	}
	t.cleanups = nil
}

// catch makes an error of a call of Fatal. It is deferred.
func (t *tb) catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case errFatal:
		*err = r.error
	default:
		panic(r)
	}
}
