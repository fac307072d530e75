//go:build !unix

package program

import "errors"

var errFreeze = errors.New("this system cannot pause a process")

// Freeze is an error: this system cannot do it.
func (s *Process) Freeze() error { return errFreeze }

// Thaw is an error, as Freeze is.
func (s *Process) Thaw() error { return errFreeze }
