//go:build !unix

package testserver

import "errors"

var errNoStop = errors.New("this system cannot stop a process")

func (p *process) stop() error   { return errNoStop }
func (p *process) resume() error { return errNoStop }
