package report

import (
	"bytes"
	"strings"
	"testing"
)

func TestLine(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, true, 3)
	p.Started("LOCK-00")
	p.Started("LOCK-0A")
	p.Finished("LOCK-0A", Ended{Passed: true})
	p.draw()
	if want := "\r1 of 3, 1 passed, 0 failed: LOCK-00"; out.String() != want {
		t.Errorf("the line is %q, want %q", out.String(), want)
	}
	out.Reset()
	p.clear()
	if text := out.String(); strings.TrimSpace(text) != "" || !strings.HasPrefix(text, "\r") || !strings.HasSuffix(text, "\r") {
		t.Errorf("the line is wiped with %q", text)
	}
}
