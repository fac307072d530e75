package cli

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"
)

// Each kind of error is told once a minute, and never with what a collector has answered or a variable says.
func TestSDKErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		e := &sdkErrors{log: slog.New(slog.NewTextHandler(&out, nil)), said: make(map[string]time.Time)}
		for range 100 {
			e.Handle(errors.New("traces export: failed to send to http://h/v1/traces: 400 (body: Bearer secret)"))
			e.Handle(errors.New("partial resource: missing value: [secret]"))
		}
		time.Sleep(time.Minute)
		e.Handle(errors.New("traces export: " + strings.Repeat("läng ", 1000)))
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		for i, want := range []string{"400 (", "partial resource", "spans were not exported"} {
			if len(lines) != 3 || !strings.Contains(lines[i], want) || len(lines[i]) > 500 || !utf8.ValidString(lines[i]) {
				t.Fatalf("want 3 lines, with %s: %s", want, out.String())
			}
		}
		if strings.Contains(out.String(), "secret") {
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
