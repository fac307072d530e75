//go:build unix

package child

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A signal before stop ends the context, one after it is left for the command.
func TestSignalsContext(t *testing.T) {
	s := Listen()
	ctx, stop := s.Context(t.Context())
	s.ch <- syscall.SIGTERM
	<-ctx.Done()
	stop()
	stop()
	var interrupted Interrupted
	if !errors.As(context.Cause(ctx), &interrupted) || interrupted.Code() != 143 {
		t.Errorf("the context ended with %v", context.Cause(ctx))
	}

	ctx, stop = s.Context(t.Context())
	stop()
	s.ch <- syscall.SIGTERM
	if ctx.Err() != nil || len(s.ch) != 1 {
		t.Errorf("after stop: %v, and %d signals left", ctx.Err(), len(s.ch))
	}
}

func TestFind(t *testing.T) {
	for name, code := range map[string]int{
		"nosuch-command": NotFound, "/nosuch/command": NotFound, "/etc/passwd": NotExecutable, "/": NotExecutable, "": NotFound,
	} {
		_, err := Find([]string{name})
		var failed *NotRunError
		if !errors.As(err, &failed) || failed.Code != code {
			t.Errorf("Find(%q): %v, want code %d", name, err, code)
		}
	}
	cmd, err := Find([]string{"sh", "-c", "true"})
	if want, lerr := exec.LookPath("sh"); err != nil || lerr != nil || filepath.Clean(cmd.path) != want {
		t.Errorf("Find(sh) = %q, %v", cmd.path, err)
	}
}
