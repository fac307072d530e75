package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/cmd/internal/child"
	"github.com/coordgo/coord/config"
)

// The exit statuses, as sysexits.h names them where it does.
const (
	ExitViolation   = 1
	ExitFree        = 3  // like systemctl is-active
	ExitUsage       = 64 // EX_USAGE
	ExitData        = 65 // EX_DATAERR
	ExitUnavailable = 69 // EX_UNAVAILABLE
	ExitInternal    = 70 // EX_SOFTWARE
	ExitOutput      = 73 // EX_CANTCREAT
	ExitLost        = 74 // EX_IOERR
	ExitRefused     = 75 // EX_TEMPFAIL
	ExitConfig      = 78 // EX_CONFIG
)

const exitHelp = `The exit status is that of the command that was run; 128+n if signal n ended it; else
    0  it worked
    1  demo, coord-conform: a promise was broken; doctor: a check failed
    3  status, break: nobody holds the lock
   64  usage: a malformed or impossible request
   65  the store has other data under that name
   69  the store is unavailable
   70  an error inside coord
   73  standard output or a file cannot be written
   74  the lock was lost while the command ran, or before release
   75  the lock is taken, or the limit denied: try again later
   78  the configuration is wrong
  126  the command cannot be executed
  127  the command was not found`

// exitCodes is a help topic: a command that does nothing.
func exitCodes() *cobra.Command {
	return &cobra.Command{Use: "exit-codes", Short: "What the exit status says", Long: exitHelp}
}

// exitError is an error that says how the process ends. Without err it is silent.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// Exit ends the process with code, and a message unless format is "".
func Exit(code int, format string, args ...any) error {
	if format == "" {
		return &exitError{code: code}
	}
	return &exitError{code, fmt.Errorf(format, args...)}
}

// Usage is the error of a request that can never work.
func Usage(format string, args ...any) error { return Exit(ExitUsage, format, args...) }

// classify gives the exit status of an error and the line that tells it.
func classify(err error) (code int, text string) {
	var (
		known       *exitError
		interrupted child.Interrupted
		notRun      *child.NotRunError
		mistake     *config.Error
		path        *fs.PathError
	)
	text = OneLine(err)
	switch {
	case errors.As(err, &known):
		if known.err == nil {
			text = ""
		}
		return known.code, text
	case errors.As(err, &interrupted):
		return interrupted.Code(), ""
	case errors.As(err, &notRun):
		return notRun.Code, text
	case errors.As(err, &mistake):
		return ExitConfig, text
	case errors.Is(err, coord.ErrLost):
		return ExitLost, text
	case errors.Is(err, coord.ErrLocked), errors.Is(err, coord.ErrLimited):
		return ExitRefused, text
	case errors.Is(err, coord.ErrInvalid), errors.Is(err, coord.ErrExceedsBurst), errors.Is(err, coord.ErrUnsupported):
		return ExitUsage, text
	case errors.Is(err, coord.ErrCorrupt):
		return ExitData, text + ": choose another name or prefix"
	case errors.Is(err, coord.ErrUnavailable), errors.Is(err, coord.ErrUnknownOutcome), errors.Is(err, context.DeadlineExceeded):
		return ExitUnavailable, text
	case errors.As(err, &path): // what is read has a status of its own
		return ExitOutput, text
	}
	return ExitInternal, text
}

// OneLine is the text of err in one line, without the name that every line begins with.
func OneLine(err error) string {
	text := strings.TrimPrefix(err.Error(), "coord: ")
	return printable(strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; "))
}
