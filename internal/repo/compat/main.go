// Command compat makes docs/generated/compatibility.md of the reports in docs/generated/compatibility, and
// conformance/durations.json, by which a run estimates its end. Run it in the root of
// the repository: make reports does.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/coordgo/coord/conformance"
)

const (
	reportsDir    = "docs/generated/compatibility"
	pagePath      = "docs/generated/compatibility.md"
	durationsPath = "conformance/durations.json"
)

func main() {
	if err := generate("."); err != nil {
		fmt.Fprintln(os.Stderr, "compat:", err)
		os.Exit(1)
	}
}

func generate(root string) error {
	reports, err := load(root)
	if err != nil {
		return err
	}
	text, err := page(reports)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, pagePath), text, 0o644); err != nil {
		return err
	}
	times, err := durations(reports)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, durationsPath), times, 0o644)
}

// load reads the reports, ordered by the names of their files.
func load(root string) ([]*conformance.Report, error) {
	files, err := filepath.Glob(filepath.Join(root, reportsDir, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no reports in %s", reportsDir)
	}
	slices.Sort(files)
	var reports []*conformance.Report
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		r, err := conformance.ParseReport(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		reports = append(reports, r)
	}
	return reports, nil
}

const intro = `# Compatibility

This page shows which cases of the [conformance suite](../conformance.md) each store passes. ` + "`" + `make reports` + "`" + ` writes it and the
[reports](compatibility), which have every message and measurement. To see them with plots, run
` + "`" + `coord report docs/generated/compatibility/*.json --out page.html` + "`" + `.

A pass is evidence, not proof, and times depend on the machine.

`

// page is docs/generated/compatibility.md.
func page(reports []*conformance.Report) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(intro)
	err := conformance.WriteMarkdown(&b, reports...)
	return b.Bytes(), err
}

// durations are the medians over the stores of what each case took, in milliseconds.
func durations(reports []*conformance.Report) ([]byte, error) {
	all := make(map[string][]time.Duration)
	for _, r := range reports {
		for i := range r.Results {
			if res := &r.Results[i]; res.Took > 0 {
				all[res.ID] = append(all[res.ID], res.Took)
			}
		}
	}
	medians := make(map[string]int64)
	for id, took := range all {
		slices.Sort(took)
		medians[id] = max(1, took[len(took)/2].Milliseconds())
	}
	data, err := json.MarshalIndent(medians, "", "\t")
	return append(data, '\n'), err
}
