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
		"older":           {`{"schema": 1}`, "schema 1, this program reads schema 2"},
		"newer":           {`{"schema": 3, "cases": "none"}`, "schema 3"},
		"other types":     {`{"schema": 2, "cases": "none"}`, "not a report"},
		"unknown outcome": {`{"schema": 2, "cases": [{"id": "LOCK-01", "outcome": "fine"}]}`, `outcome "fine"`},
		"no id":           {`{"schema": 2, "cases": [{"outcome": "pass"}]}`, "empty or repeated"},
		"twice":           {`{"schema": 2, "cases": [{"id": "a", "outcome": "pass"}, {"id": "a", "outcome": "pass"}]}`, "empty or repeated"},
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
		forged := bytes.Replace(data, []byte(`"judgement": "does not meet"`), []byte(`"judgement": "meets"`), 1)
		if back, err = ParseReport(forged); err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(back.Summary.Profiles, r.Summary.Profiles, func(a, b Verdict) bool { return a.String() == b.String() }) {
			t.Error("a verdict that does not follow from the cases was believed")
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
	f.Add([]byte(`{"schema": 2, "suite": "0", "cases": [{"id": "x", "outcome": "fail", "measures": {"times": {"t": {"n": 1}}}}]}`))
	f.Add([]byte(`{"schema": 2, "suite": "` + Version + `", "cases": [{"id": "x", "outcome": "pass", "measures": {"times": {"wake-up": {"n": 2, "min_ns": -9223372036854775808, "p99_ns": 9223372036854775807}}}}]}`))
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
		html, md := new(bytes.Buffer), new(bytes.Buffer)
		if err := WriteHTML(html, r, back); err != nil {
			t.Errorf("as HTML: %v", err)
		}
		if err := WriteMarkdown(md, r, back); err != nil {
			t.Errorf("as Markdown: %v", err)
		}
	})
}

func TestWriteFile(t *testing.T) {
	dir, reports := t.TempDir(), specimens()
	for name, begin := range map[string]string{"a.json": "{", "a.md": "# Conformance", "a.html": "<!DOCTYPE html>"} {
		path := filepath.Join(dir, name)
		if err := WriteFile(path, reports[0]); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(text), begin) {
			t.Errorf("%s begins with %.20q, %v", name, text, err)
		}
	}
	for name, says := range map[string]string{"a.json": "not of 2", "a.pdf": "ends in .json, .md or .html", "html": "ends in"} {
		if err := WriteFile(filepath.Join(dir, name), reports...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want an error that says %q", name, err, says)
		}
	}
}
