package cli

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
)

// Spans that are lost are told once a minute, and never with what a collector has answered.
func TestLostSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := &lostSpans{log: slog.New(slog.NewTextHandler(&out, nil))}
		for range 100 {
			l.Handle(fmt.Errorf("failed to send to http://h/v1/traces: 400 (body: Bearer secret)"))
		}
		time.Sleep(time.Minute)
		l.Handle(errors.New(strings.Repeat("long ", 1000)))
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "400 (") || !strings.Contains(lines[0], "failures=1") || !strings.Contains(lines[1], "failures=100") {
			t.Errorf("%s", out.String())
		}
		if strings.Contains(out.String(), "secret") || len(lines[len(lines)-1]) > 500 {
			t.Errorf("%s", out.String())
		}
	})
}

// What OpenTelemetry logs of its variables comes without their values, and what is less than a warning not at all.
func TestSDKLog(t *testing.T) {
	var out bytes.Buffer
	l := logr.New(sdkLog{slog.New(slog.NewTextHandler(&out, nil))})
	l.Error(errors.New("secret"), "parse headers", "input", "secret")
	l.V(1).Info("a warning", "input", "secret")
	l.V(4).Info("some news")
	got := out.String()
	if strings.Count(got, "\n") != 2 || !strings.Contains(got, `"OpenTelemetry: parse headers"`) || !strings.Contains(got, "OpenTelemetry: a warning") || strings.Contains(got, "secret") {
		t.Errorf("%s", got)
	}
}
