//go:build unix

package child

import (
	"os"
	"syscall"
)

// Become replaces this process by cmd. It returns only a [*NotRunError], or
// [Interrupted] if a signal came first.
func Become(cmd Command, sigs *Signals) (int, error) {
	select {
	case sig := <-sigs.ch:
		return 0, Interrupted{sig}
	default:
	}
	return 0, notRun(cmd.args[0], syscall.Exec(cmd.path, cmd.args, os.Environ()))
}
