//go:build !unix

package child

import (
	"os"
	"syscall"
)

// passed is Ctrl-C, which the console sends to the command itself.
var passed = []os.Signal{os.Interrupt}

var stops []os.Signal

func hasTerminal() bool { return true }

func fromTerminal(os.Signal) bool { return true }

func attributes(bool) *syscall.SysProcAttr { return nil }

// terminate kills: there is no softer way that every command understands.
func (p *process) terminate() error { return p.kill() }

func (p *process) kill() error { return p.signal(os.Kill) }

func (p *process) sweep() error { return nil }
