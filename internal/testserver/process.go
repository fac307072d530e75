package testserver

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// process is a running child.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once it has exited and been reaped
	tree bool          // its children are stopped and killed with it
}

// find gives the path of the first binary that is there, or "".
func find(binaries []string) string {
	for _, b := range binaries {
		if path, err := exec.LookPath(b); err == nil {
			return path
		}
	}
	return ""
}

// spawn starts a child that does not outlive this process, where the system
// can do that. On Linux the death signal is sent when the thread that started
// the child ends, so one thread is kept for it until the child has exited.
func spawn(binary string, args []string, dir string, out *os.File, attr *syscall.SysProcAttr) (*process, error) {
	p := &process{cmd: exec.Command(binary, args...), done: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = attr
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			// How it exited does not matter: it is killed, as a rule.
			_ = p.cmd.Wait()
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// kill ends the child and waits for it. A child that has exited is fine.
func (p *process) kill() {
	if p.tree && p.stop() == nil {
		p.killChildren()
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}
