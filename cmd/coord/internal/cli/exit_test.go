package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/cmd/coord/internal/child"
	"github.com/coordgo/coord/config"
)

func TestClassify(t *testing.T) {
	failed := func(op string, errs ...error) error {
		return &coord.Error{Op: op, Backend: "redis", Key: "a", Err: errors.Join(errs...)}
	}
	for _, tt := range []struct {
		err  error
		code int
		text string
	}{
		{usage("--x %d", 7), 64, "--x 7"},
		{exit(75, ""), 75, ""},
		{child.Interrupted{Signal: syscall.SIGTERM}, 143, ""},
		{&child.NotRunError{Code: 127, Err: errors.New("x")}, 127, "x"},
		{&config.Error{File: "f", Line: 3, Problem: "x"}, 78, "f:3: x"},
		{failed("lock", coord.ErrLocked, context.DeadlineExceeded), 75, `lock "a" on redis: locked by another holder; context deadline exceeded`},
		{failed("wait", coord.ErrLimited), 75, `wait "a" on redis: limited`},
		{failed("unlock", coord.ErrLost), 74, `unlock "a" on redis: lock lost`},
		{failed("lock", coord.ErrInvalid), 64, `lock "a" on redis: invalid argument`},
		{failed("allow", coord.ErrExceedsBurst), 64, `allow "a" on redis: more permits than the limit ever grants at once`},
		{failed("break", coord.ErrUnsupported), 64, `break "a" on redis: not supported by this store`},
		{failed("lock", coord.ErrCorrupt), 65, `lock "a" on redis: stored value is not coord's: choose another name or prefix`},
		{failed("lock", coord.ErrUnavailable, errors.New("refused")), 69, `lock "a" on redis: store unavailable; refused`},
		{failed("lock", coord.ErrUnknownOutcome), 69, `lock "a" on redis: outcome unknown`},
		{&os.PathError{Op: "mkdir", Path: "/x", Err: syscall.EACCES}, 69, "mkdir /x: permission denied"},
		{fmt.Errorf("coord: %w", errors.New("what\nis\r\nthis")), 70, "what; is; this"},
	} {
		if code, text := classify(tt.err); code != tt.code || text != tt.text {
			t.Errorf("classify(%v) = %d, %q, want %d, %q", tt.err, code, text, tt.code, tt.text)
		}
	}
}
