package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// readyWithin is from when on a service is held to hang that was started.
const readyWithin = time.Minute

// serverSpec is how a service is started: nothing else is in its environment.
type serverSpec struct {
	program   string // that was built
	args, env []string
	addr      string // where it answers by gRPC
}

// service is a process.
type service struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when it has ended
}

// startService starts a process that ends with t, or with this one.
func startService(t testing.TB, path string, spec serverSpec) (*service, error) {
	p := &service{cmd: exec.Command(path, spec.args...), log: filepath.Join(t.TempDir(), "log"), done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = append([]string{"HOME=" + filepath.Dir(p.log)}, spec.env...)
	p.cmd.SysProcAttr = childAttr()
	started := make(chan error, 1)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.done
	})
	return p, nil
}

// run starts the process and waits for it, on one thread: the kernel ends the process when the thread ends that started it.
func (p *service) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)
	err := p.cmd.Start()
	started <- err
	if err == nil {
		_ = p.cmd.Wait() // it is killed, as a rule
	}
}

// await asks until there is an answer, or the process has ended.
func (p *service) await(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin, errors.New("it is not ready within a minute"))
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return p.failed(errors.New("it has ended"), err)
		case <-ctx.Done():
			return p.failed(context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// failed tells why a service does not answer, by the end of its log too.
func (p *service) failed(why, last error) error {
	const end = 2000
	log, err := os.ReadFile(p.log)
	return errors.Join(fmt.Errorf("%s: %w: %w\n%s", filepath.Base(p.cmd.Path), why, last, log[max(0, len(log)-end):]), err)
}
