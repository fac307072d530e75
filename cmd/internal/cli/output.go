package cli

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// output is standard output. It keeps the first error of writing, which run reports: packages
// that print, such as cobra, drop it.
type output struct {
	w   io.Writer
	mu  sync.Mutex
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err == nil {
			o.err = err
		}
	}
	return n, err
}

// check adds what could not be written to an end that has no text of its own.
func (o *output) check(err error) error {
	var known *exitError
	if err == nil || errors.As(err, &known) && known.err == nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err != nil {
			return o.err
		}
	}
	return err
}

// Out is standard output. The end of the run reports what could not be written.
func (a *App) Out() io.Writer { return a.stdout }

// Printf writes to standard output. run reports what could not be written.
func (a *App) Printf(format string, args ...any) {
	_, _ = fmt.Fprintf(a.stdout, format, args...) // output has noted the error
}
