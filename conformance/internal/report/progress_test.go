package report

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestLine(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, true, 2, []Planned{
		{ID: "LOCK-00", Usual: time.Second}, {ID: "LOCK-0A", Usual: time.Second}, {ID: "LOCK-0B", Usual: time.Second, Alone: true},
	})
	now := time.Now()
	// A second each, two at a time, but for the one that runs alone.
	if left := p.left(now); left != 2*time.Second {
		t.Errorf("%v left, want 2s", left)
	}
	p.Started("LOCK-00")
	p.draw(now)
	if want := "\r0 of 3, 0 passed, 0 failed, about 2s left: LOCK-00"; out.String() != want {
		t.Errorf("the line is %q, want %q", out.String(), want)
	}
	// It took three times as long as usual, and so will the others.
	p.Finished("LOCK-00", Ended{Passed: true, Took: 3 * time.Second})
	if left := p.left(now); left != 6*time.Second {
		t.Errorf("%v left, want 6s", left)
	}
	out.Reset()
	p.clear()
	if text := out.String(); strings.TrimSpace(text) != "" || !strings.HasPrefix(text, "\r") || !strings.HasSuffix(text, "\r") {
		t.Errorf("the line is wiped with %q", text)
	}
}
