package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/coordgo/coord/conformance/internal/report"
)

const ownPackage = "github.com/coordgo/coord/conformance/internal/runner."

// Recorder is the TB that every case runs on. It keeps what the case says, and ignores a case that goes on after it was
// given up.
type Recorder struct {
	name   string
	ctx    context.Context
	cancel context.CancelFunc
	began  time.Time

	mu       sync.Mutex
	over     bool // given up or through: nothing more is recorded
	messages []report.Message
	failed   bool
	aside    string // why the case is not about the store, "" if it is
	cleanups []func()
}

// NewRecorder begins the record of a case.
func NewRecorder(ctx context.Context, name string) *Recorder {
	r := &Recorder{name: name, began: time.Now()}
	r.ctx, r.cancel = context.WithCancel(ctx)
	return r
}

// Helper is a method of TB.
func (r *Recorder) Helper() {}

// Name is the case's.
func (r *Recorder) Name() string { return r.name }

// Context ends with the case.
func (r *Recorder) Context() context.Context { return r.ctx }

// Cancel ends the case's context.
func (r *Recorder) Cancel() { r.cancel() }

// Logf records a message.
func (r *Recorder) Logf(format string, args ...any) { r.record(false, format, args...) }

// Errorf records a failure.
func (r *Recorder) Errorf(format string, args ...any) { r.record(true, format, args...) }

// Fatalf records a failure, and ends the goroutine of the case.
func (r *Recorder) Fatalf(format string, args ...any) {
	r.record(true, format, args...)
	runtime.Goexit()
}

// Unsupported ends a case that is not about the store after all. What was seen until then does not count as a pass.
func (r *Recorder) Unsupported(reason string) {
	r.mu.Lock()
	r.aside = reason
	r.mu.Unlock()
	runtime.Goexit()
}

// Aside is why the case is not about the store, "" if it is.
func (r *Recorder) Aside() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.aside
}

// Failed reports whether the case has recorded a failure.
func (r *Recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// Cleanup calls fn after the case.
func (r *Recorder) Cleanup(fn func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, fn)
}

// TempDir is a new directory, which is removed after the case.
func (r *Recorder) TempDir() string {
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		r.Fatalf("no temporary directory: %v", err)
	}
	r.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			r.Errorf("temporary directory: %v", err)
		}
	})
	return dir
}

func (r *Recorder) record(failure bool, format string, args ...any) {
	m := report.Message{Failure: failure, At: caller(), After: time.Since(r.began), Text: fmt.Sprintf(format, args...)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	r.messages = append(r.messages, m)
	r.failed = r.failed || failure
}

// Forward records what a part of the case has said.
func (r *Recorder) Forward(m report.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	m.After = time.Since(r.began)
	r.messages = append(r.messages, m)
	r.failed = r.failed || m.Failure
}

// caller is the place in a case that speaks: the first frame that is neither of this package nor of a helper.
func caller() string {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		base := filepath.Base(f.File)
		if !strings.HasPrefix(f.Function, ownPackage) && !strings.HasSuffix(base, "env.go") || !more {
			return fmt.Sprintf("%s:%d", base, f.Line)
		}
	}
}

// Run calls fn and then the cleanups, in this goroutine. A panic is a failure of the case.
func (r *Recorder) Run(fn func()) {
	defer r.clean()
	returned := false
	defer func() {
		r.catch(recover())
		if !returned && !r.Failed() && r.Aside() == "" {
			r.Errorf("something ended the goroutine of the case, such as the Skip or FailNow of another test: want Fatalf of the TB that the case was given")
		}
	}()
	fn()
	returned = true
}

func (r *Recorder) catch(p any) {
	if p != nil {
		r.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}

// clean runs the cleanups, the last first, even if one of them ends the goroutine.
func (r *Recorder) clean() {
	r.cancel()
	r.mu.Lock()
	n := len(r.cleanups)
	if n == 0 {
		r.mu.Unlock()
		return
	}
	fn := r.cleanups[n-1]
	r.cleanups = r.cleanups[:n-1]
	r.mu.Unlock()
	defer r.clean()
	defer func() { r.catch(recover()) }()
	fn()
}

// Attempt calls fn with a record of its own, and gives its failure, "" if there was none. What fn leaves to be cleaned up is
// cleaned up at once if it failed, and else after the case.
func (r *Recorder) Attempt(fn func(*Recorder)) (failure string) {
	inner := &Recorder{name: r.name, ctx: r.ctx, cancel: func() {}, began: r.began}
	end := func() {
		defer func() {
			messages, _ := inner.Result()
			for _, m := range messages {
				r.Forward(m)
			}
		}()
		inner.clean()
	}
	done := make(chan struct{})
	go func() { // which Fatalf ends
		defer close(done)
		defer func() { inner.catch(recover()) }()
		fn(inner)
	}()
	<-done
	if !inner.Failed() {
		r.Cleanup(end)
		return ""
	}
	inner.clean()
	messages, _ := inner.Result()
	for _, m := range messages {
		if m.Failure {
			failure = m.Text
		}
	}
	return failure
}

// Result closes the record.
func (r *Recorder) Result() (messages []report.Message, failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	return r.messages, r.failed
}

// ComeBack is how long a case has to end once its context was cancelled.
const ComeBack = 5 * time.Second

// Guard is Run under a watchdog. A case that overruns its bound fails, with the stacks of all goroutines. One that
// does not end even then is left behind.
func (r *Recorder) Guard(ctx context.Context, bound time.Duration, fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(fn)
	}()
	watchdog := time.NewTimer(bound)
	defer watchdog.Stop()
	select {
	case <-done:
		return
	case <-ctx.Done(): // so is the case's context, and nobody asks for its result
	case <-watchdog.C:
		r.Errorf("the case did not end within %v; all goroutines:\n%s", bound, stacks())
		r.cancel()
	}
	watchdog.Reset(ComeBack)
	select {
	case <-done:
	case <-watchdog.C:
		r.Errorf("the case did not end %v after its context was cancelled, either: it is left behind", ComeBack)
	}
}

func stacks() []byte {
	buf := make([]byte, 1<<20)
	return buf[:runtime.Stack(buf, true)]
}
