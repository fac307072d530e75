//go:build !unix

package testserver

import (
	"errors"
	"os"
)

var errNoStop = errors.New("this system cannot stop a process")

func (p *process) stop() error   { return errNoStop }
func (p *process) resume() error { return errNoStop }
func (p *process) killChildren() {}

// lockFile does nothing: two processes of tests can take the same port.
func lockFile(*os.File) error { return nil }
