package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/redis" // whose version is asked
	"github.com/coordgo/coord/internal/testserver"
)

// lab is where services are built and started.
type lab struct {
	t        testing.TB
	redis    *testserver.Server
	programs string // the directory of what was built
	versions []string
}

// newLab starts Redis, and builds the services.
func newLab(ctx context.Context, t testing.TB) (*lab, error) {
	if _, err := processorTime(os.Getpid()); err != nil {
		return nil, err
	}
	l := &lab{t: t, redis: testserver.Redis(t), programs: t.TempDir()}
	if l.redis.Pid() == 0 {
		return nil, fmt.Errorf("redis at %s is of the environment: want one whose processor time can be told", l.redis.Addr)
	}
	c, err := coord.Open(ctx, "redis://"+l.redis.Addr)
	if err != nil {
		return nil, err
	}
	l.versions = []string{c.Info().Server}
	if err := c.Close(); err != nil {
		return nil, err
	}
	return l, l.build(ctx)
}

// build compiles coord as it is in the workspace, and each of the others as it was released.
func (l *lab) build(ctx context.Context) error {
	here, err := l.goCommand(ctx, "", nil, "list", "-m", "-f", "{{.Dir}}", "github.com/coordgo/coord/bench")
	if err != nil {
		return err
	}
	if _, err := l.goCommand(ctx, here, nil, "build", "-trimpath", "-o", l.programs, "github.com/coordgo/coord/cmd/coord"); err != nil {
		return err
	}
	for _, original := range [][2]string{{"ratelimit", "github.com/envoyproxy/ratelimit"}, {"gubernator", "github.com/gubernator-io/gubernator/v2"}} {
		dir, alone := filepath.Join(here, "envoy", "originals", original[0]), []string{"GOWORK=off"}
		if _, err := l.goCommand(ctx, dir, alone, "build", "-trimpath", "-o", l.programs, "tool"); err != nil {
			return err
		}
		version, err := l.goCommand(ctx, dir, alone, "list", "-m", original[1])
		if err != nil {
			return err
		}
		l.versions = append(l.versions, version)
	}
	return nil
}

// goCommand runs the go command in a directory, with more in its environment.
func (l *lab) goCommand(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0"), env...)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// start starts the process of a subject, and waits until it answers.
func (l *lab) start(ctx context.Context, s subject) (*target, error) {
	spec, err := s.spec(l)
	if err != nil {
		return nil, err
	}
	p, err := startService(l.t, filepath.Join(l.programs, spec.program), spec)
	if err != nil {
		return nil, err
	}
	t, err := newTarget(l.t, s, spec.addr)
	if err != nil {
		return nil, err
	}
	t.pid = p.cmd.Process.Pid
	return t, p.await(ctx, t.ready)
}
