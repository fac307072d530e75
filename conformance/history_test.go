package conformance

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coordgo/coord/conformance/internal/history"
)

// A failing history is saved and drawn, and found to fail again.
func TestFailingHistoryIsSaved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "histories")
	t.Setenv(HistoriesEnv, dir)
	res := outcome(t, memoryHarness(), Case{run: func(e *env) {
		h := e.record(history.Heading{Model: history.ModelOwners})
		for i, token := range []int64{2, 1} {
			h.Add(history.Operation{Op: history.OpLock, Who: string(rune('a' + i)), Key: "</script>", Call: int64(i) * 10, Return: int64(i)*10 + 1, Result: history.OK, Token: token})
		}
		h.Add(history.Operation{Op: history.OpLock, Who: "c", Key: "other", Result: history.OK, Token: 1})
		e.linearizable(h)
	}})
	if text := res.explainedBy("no order explains under the owners model"); res.Outcome != Fail || !strings.Contains(text, dir) {
		t.Fatalf("%s: %q, want a failure that names the files", res.Outcome, text)
	}
	saved, err := filepath.Glob(filepath.Join(dir, "coord-history-LOCK-00-*.jsonl"))
	if err != nil || len(saved) != 1 {
		t.Fatalf("saved %v, %v, want one history", saved, err)
	}
	data, err := os.ReadFile(saved[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckHistory(bytes.NewReader(data), 0, nil); !errors.Is(err, ErrNotLinearizable) {
		t.Errorf("the saved history: %v, want it refused again", err)
	}
	page, err := os.ReadFile(strings.TrimSuffix(saved[0], ".jsonl") + ".html")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(page, []byte("lock")) || bytes.Contains(page, []byte(`src="http`)) {
		t.Error("the drawing does not show the operations, or needs the network")
	}
}

// A history without an answer proves nothing, and so is no pass.
func TestHistoryWithoutAnswersFails(t *testing.T) {
	res := outcome(t, memoryHarness(), Case{run: func(e *env) {
		h := e.record(history.Heading{Model: history.ModelHolds})
		h.Add(history.Operation{Op: history.OpTry, Who: "a", Return: 1, Result: history.Unknown})
		e.linearizable(h)
	}})
	if res.Outcome != Fail || res.explainedBy("no operation that was answered") == "" {
		t.Errorf("%s: %v, want a failure", res.Outcome, res.Messages)
	}
}
