package conformance

import (
	"cmp"
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

// recorder is the TB that every case runs on. It keeps what the case says, and
// stays harmless when the case goes on after it was given up.
type recorder struct {
	name   string
	ctx    context.Context
	cancel context.CancelFunc
	began  time.Time

	mu       sync.Mutex
	over     bool // given up or through: nothing more is recorded
	messages []Message
	failed   bool
	aside    string // why the case is not about the store, "" if it is
	unclear  string // what the case could not judge, "" if it judged all
	cleanups []func()
	meter    *report.Meter
}

func newRecorder(ctx context.Context, name string) *recorder {
	r := &recorder{name: name, began: time.Now(), meter: &report.Meter{}}
	r.ctx, r.cancel = context.WithCancel(ctx)
	return r
}

func (r *recorder) Helper()                  {}
func (r *recorder) Name() string             { return r.name }
func (r *recorder) Context() context.Context { return r.ctx }

func (r *recorder) Logf(format string, args ...any) { r.record(false, format, args...) }

func (r *recorder) Errorf(format string, args ...any) { r.record(true, format, args...) }

func (r *recorder) Fatalf(format string, args ...any) {
	r.record(true, format, args...)
	runtime.Goexit()
}

// unsupported ends a case that is not about the store after all. It must have tested nothing: what
// was seen until then does not count as a pass.
func (r *recorder) unsupported(reason string) {
	r.mu.Lock()
	r.aside = reason
	r.mu.Unlock()
	runtime.Goexit()
}

// leaveOpen notes something that the case could not judge.
func (r *recorder) leaveOpen(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.unclear = what
	}
}

// open is what the case could not judge, "" if it judged all.
func (r *recorder) open() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unclear
}

// besides is why the case is not about the store, "" if it is.
func (r *recorder) besides() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.aside
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Cleanup(fn func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, fn)
}

func (r *recorder) TempDir() string {
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

// measure keeps a time for the report, which tells how those of one name lie.
func (r *recorder) measure(name string, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.meter.Time(name, d)
	}
}

// count adds n to a number of the report, such as "calls that were failed". Zero is a number, too.
func (r *recorder) count(name string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.meter.Count(name, n)
	}
}

func (r *recorder) record(failure bool, format string, args ...any) {
	m := Message{Failure: failure, At: caller(), After: time.Since(r.began), Text: fmt.Sprintf(format, args...)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	r.messages = append(r.messages, m)
	r.failed = r.failed || failure
}

// forward records what a part of the case has said.
func (r *recorder) forward(m Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	m.After = time.Since(r.began)
	r.messages = append(r.messages, m)
	r.failed = r.failed || m.Failure
}

// caller is the place in a case that speaks: the first frame that is neither the recorder's
// nor a helper's.
func caller() string {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		base := filepath.Base(f.File)
		if base != "tb.go" && !strings.HasSuffix(base, "env.go") || !more {
			return fmt.Sprintf("%s:%d", base, f.Line)
		}
	}
}

// run calls fn and then the cleanups, in this goroutine. A panic is a failure of the case.
func (r *recorder) run(fn func()) {
	defer r.clean()
	returned := false
	defer func() {
		r.catch(recover())
		if !returned && !r.Failed() && r.besides() == "" {
			r.Errorf("something ended the goroutine of the case, such as the Skip or FailNow of another test: want Fatalf of the TB that the case was given")
		}
	}()
	fn()
	returned = true
}

func (r *recorder) catch(p any) {
	if p != nil {
		r.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}

// clean runs the cleanups, the last first, even if one of them ends the goroutine.
func (r *recorder) clean() {
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

// result closes the record.
func (r *recorder) result() (messages []Message, failed bool, measured Measures) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	return r.messages, r.failed, measuresOf(r.meter)
}

// join takes over what inner, which is through, has measured.
func (r *recorder) join(inner *recorder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.meter.Join(inner.meter)
		r.unclear = cmp.Or(r.unclear, inner.open())
	}
}
