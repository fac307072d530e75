package program_test

import (
	"context"
	"errors"
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord/examples/internal/exampletest"
	"github.com/coordgo/coord/examples/internal/program"
)

// The example under test does what its flag says.
var act = flag.String("act", "", "what happens")

func TestMain(m *testing.M) {
	exampletest.Main(m, func() { program.Main(show, work) })
}

// show starts two processes, and hears each of them once.
func show(ctx context.Context, p *program.Program) (err error) {
	if *act == "unready" {
		p.Patience = 100 * time.Millisecond
	}
	crew, err := program.Start[string](ctx, p, "A", "B")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, crew.End()) }()
	if err := crew.Go(); err != nil {
		return err
	}
	for e, err := range crew.Events(2) {
		if err != nil {
			return err
		}
		p.Check(e.What == "fine", "%s says that it is %s", e.By.Name, e.What)
		switch *act {
		case "killed":
			err = e.By.Kill()
		case "frozen":
			err = e.By.Freeze()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func work(ctx context.Context, p *program.Program) error {
	if *act == "unready" {
		<-ctx.Done()
		return nil
	}
	if err := p.Ready(ctx); err != nil {
		return err
	}
	said := "fine"
	switch {
	case *act == "fails" && p.Name == "B":
		return errors.New("cannot go on")
	case *act == "ill":
		said = "ill"
	}
	if err := p.Tell(said); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func TestProgram(t *testing.T) {
	for _, tt := range []struct {
		act, want string
		ok        bool
	}{
		{"", "B says that it is fine", true},
		{"killed", "A says that it is fine", true},
		{"frozen", "A says that it is fine", true},
		{"ill", program.ErrBroken.Error(), false},
		{"fails", "process B: exit status 1", false},
		{"unready", "a process does not begin", false},
	} {
		t.Run(tt.act, func(t *testing.T) {
			said, err := exampletest.Run(t, "--act", tt.act)
			if (err == nil) != tt.ok || strings.Count(said, tt.want) != 1 {
				t.Errorf("%v, and it said %q: want %q once", err, said, tt.want)
			}
		})
	}
}

// Every process but the first would have a store of its own.
func TestProcessesShareNoMemory(t *testing.T) {
	said, err := exampletest.Run(t, "--url", "memory://x")
	if err == nil || !strings.Contains(said, "a memory store is one process's own") {
		t.Error(err)
	}
}
