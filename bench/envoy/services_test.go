package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord/bench/internal/tb"
)

// asService is what makes a test binary a service.
const asService = "COORD_BENCH_SERVICE"

func init() {
	switch os.Getenv(asService) {
	case "stays":
		time.Sleep(time.Hour)
	case "ends":
		os.Stderr.WriteString("no such setting\n")
		os.Exit(1)
	}
}

func started(t *testing.T, of testing.TB, how string) *service {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := startService(of, self, serverSpec{env: []string{asService + "=" + how}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var errSilent = errors.New("silent")

func silent(context.Context) error { return errSilent }

// A service that ends before it answers is told by what it wrote.
func TestServiceThatEnds(t *testing.T) {
	err := started(t, t, "ends").await(t.Context(), silent)
	if !errors.Is(err, errSilent) || !strings.Contains(err.Error(), "it has ended") || !strings.Contains(err.Error(), "no such setting") {
		t.Error(err)
	}
}

// Who is interrupted while a service starts waits no longer.
func TestServiceThatNeverAnswers(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := started(t, t, "stays").await(ctx, func(context.Context) error { cancel(); return errSilent })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// The end of the measurement ends the processes.
func TestServicesEnd(t *testing.T) {
	of := tb.New(t.Context())
	p := started(t, of, "stays")
	if err := p.await(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
	of.End()
	select {
	case <-p.done:
	default:
		t.Error("it still runs")
	}
}

func TestNoSuchProgram(t *testing.T) {
	if _, err := startService(t, "/no/such/program", serverSpec{}); err == nil {
		t.Error("it is started")
	}
}
