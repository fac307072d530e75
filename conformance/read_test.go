package conformance

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParseReport(t *testing.T) {
	for name, test := range map[string]struct{ text, says string }{
		"not JSON":        {"hello", "not a report"},
		"no schema":       {"{}", "it has no schema"},
		"older":           {`{"schema": 2}`, "schema 2, this program reads schema 4"},
		"newer":           {`{"schema": 5, "cases": "none"}`, "schema 5"},
		"other types":     {`{"schema": 4, "cases": "none"}`, "not a report"},
		"unknown outcome": {`{"schema": 4, "cases": [{"id": "LOCK-01", "outcome": "fine"}]}`, `outcome "fine"`},
		"no id":           {`{"schema": 4, "cases": [{"outcome": "pass"}]}`, "empty or repeated"},
		"twice":           {`{"schema": 4, "cases": [{"id": "a", "outcome": "pass"}, {"id": "a", "outcome": "pass"}]}`, "empty or repeated"},
	} {
		if _, err := ParseReport([]byte(test.text)); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want an error that says %q", name, err, test.says)
		}
	}
}

// A report that is read back is the report, and its summary is that of its cases.
func TestReportIsReadBack(t *testing.T) {
	for _, r := range specimens() {
		data, err := r.JSON()
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseReport(data)
		if err != nil {
			t.Fatal(err)
		}
		again, err := back.JSON()
		if err != nil || !bytes.Equal(data, again) {
			t.Errorf("read back and written again, the report is another (%v)", err)
		}
		forged := bytes.Replace(data, []byte(`"stale": true`), []byte(`"stale": false`), 1)
		if back, err = ParseReport(forged); err != nil || len(back.Stale()) != len(r.Stale()) {
			t.Errorf("a summary that does not follow from the cases was believed (%v)", err)
		}
	}
}

func FuzzParseReport(f *testing.F) {
	for _, r := range specimens() {
		r.Results = slices.DeleteFunc(r.Results, func(r Result) bool { return r.Outcome == Pass })
		r.Results = r.Results[:min(3, len(r.Results))]
		r.summarize(nil)
		data, err := r.JSON()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"schema": 4, "suite": "0", "cases": [{"id": "x", "clause": "|", "outcome": "fail", "messages": [{"text": "|"}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseReport(data)
		if err != nil {
			return
		}
		first, err := r.JSON()
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseReport(first)
		if err != nil {
			t.Fatalf("what was written is not read: %v", err)
		}
		if second, err := back.JSON(); err != nil || !bytes.Equal(first, second) {
			t.Errorf("written again, the report is another (%v)", err)
		}
		if err := writeMarkdown(new(bytes.Buffer), r); err != nil {
			t.Errorf("as Markdown: %v", err)
		}
		if err := WriteTable(new(bytes.Buffer), r, back); err != nil {
			t.Errorf("as a table: %v", err)
		}
	})
}

func TestWriteFile(t *testing.T) {
	dir, reports := t.TempDir(), specimens()
	for name, begin := range map[string]string{"a.json": "{", "a.md": "# Conformance"} {
		path := filepath.Join(dir, name)
		if err := WriteFile(path, reports[0]); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(text), begin) {
			t.Errorf("%s begins with %.20q, %v", name, text, err)
		}
	}
	for _, name := range []string{"a.pdf", "md"} {
		if err := WriteFile(filepath.Join(dir, name), reports[0]); err == nil || !strings.Contains(err.Error(), "ends in .json or .md") {
			t.Errorf("%s: %v, want an error that says which names there are", name, err)
		}
	}
}
