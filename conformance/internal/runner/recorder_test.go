package runner_test

import (
	"strings"
	"testing"

	"github.com/coordgo/coord/conformance/internal/runner"
)

// A message names the line of the case that said it, and a case that was given up says nothing more.
func TestRecorder(t *testing.T) {
	r := runner.NewRecorder(t.Context(), "case")
	dir := ""
	r.Run(func() {
		dir = r.TempDir()
		r.Logf("a message")
		r.Cleanup(func() { r.Errorf("in a clean-up, which runs after a panic") })
		panic("a mistake")
	})
	messages, failed := r.Result()
	if !failed || len(messages) != 3 || dir == "" {
		t.Fatalf("failed %v, %d messages %v, want a failure and three messages", failed, len(messages), messages)
	}
	if m := messages[0]; !strings.HasPrefix(m.At, "recorder_test.go:") || m.Failure || m.Text != "a message" {
		t.Errorf("%+v, want the message of this file", m)
	}
	r.Errorf("too late")
	if messages, _ := r.Result(); len(messages) != 3 {
		t.Errorf("%d messages after the end, want 3", len(messages))
	}
	if r.Context().Err() == nil {
		t.Error("the context did not end with the case")
	}
}

// An attempt that fails is cleaned up and leaves no failure; one that does not is cleaned up with the case.
func TestAttempt(t *testing.T) {
	r := runner.NewRecorder(t.Context(), "case")
	var cleaned []string
	r.Run(func() {
		failure := r.Attempt(func(tb *runner.Recorder) {
			tb.Cleanup(func() { cleaned = append(cleaned, "first") })
			tb.Fatalf("no connection")
		})
		if failure != "no connection" || len(cleaned) != 1 || r.Failed() {
			t.Errorf("failure %q, cleaned %v, failed %v, want the failure of the attempt alone", failure, cleaned, r.Failed())
		}
		failure = r.Attempt(func(tb *runner.Recorder) {
			tb.Cleanup(func() { cleaned = append(cleaned, "second"); tb.Errorf("left over") })
		})
		if failure != "" || len(cleaned) != 1 {
			t.Errorf("failure %q, cleaned %v, want no failure, and nothing cleaned up yet", failure, cleaned)
		}
	})
	if messages, failed := r.Result(); len(cleaned) != 2 || !failed || len(messages) != 1 || messages[0].Text != "left over" {
		t.Errorf("cleaned %v, %v, want what the clean-up of the second said", cleaned, messages)
	}
}
