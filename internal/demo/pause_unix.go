//go:build unix

package demo

import (
	"errors"
	"os"
	"syscall"
)

const canPause = true

func pause(p *process) error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

// resume continues p; one that runs, or has ended, is left as it is.
func resume(p *process) error {
	if err := p.cmd.Process.Signal(syscall.SIGCONT); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
