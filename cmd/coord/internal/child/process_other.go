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
func (p *process) terminate() { p.kill() }

func (p *process) kill() {
	_ = p.Process.Kill() // it fails only if the command has just ended
}

func (p *process) sweep() {}
