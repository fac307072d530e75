//go:build !unix

package demo

import "errors"

const canPause = false

var errNoPause = errors.New("this system cannot pause a process")

func pause(*process) error  { return errNoPause }
func resume(*process) error { return nil }
