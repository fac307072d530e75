package conformance

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

// passed is a report of a store that passes every case, but for those that bad names.
func passed(claims driver.Claims, bad map[string]Outcome) *Report {
	r := &Report{Schema: Schema, Suite: Version, Store: Store{Name: "x", Claims: claims, Locks: true, Limits: true}}
	for _, c := range Cases() {
		o := Pass
		if b, ok := bad[c.ID]; ok {
			o = b
		}
		if o != "" {
			r.Results = append(r.Results, Result{Case: c, Outcome: o})
		}
	}
	r.summarize(nil)
	return r
}

// specimens are reports with one of everything.
func specimens() []*Report {
	good := passed(driver.AllClaims(), nil)
	bad := passed(driver.Claims{driver.Reserve, driver.NoEviction, driver.ScopeHosts}, map[string]Outcome{
		"LOCK-02": Fail, "LOCK-05": Deviates, "LOCK-15": Unproven, "LOCK-50": Unsupported, "LIMIT-59": Fail, "CORE-05": "",
	})
	bad.Store.Server = "x 2.0"
	for i := range bad.Results {
		switch r := &bad.Results[i]; r.ID {
		case "LOCK-02", "LOCK-05":
			r.Messages = []Message{{Failure: true, At: "cases_exclusion.go:80", After: time.Second, Text: "saw two holders"}}
			if r.Outcome == Deviates {
				r.Reason = "tokens are made of time"
			}
		case "LOCK-50":
			r.Reason, r.Unclaimed = "yet the case passes", driver.Wake
		}
	}
	bad.summarize([]Deviation{{Case: "LOCK-05", Reason: "tokens are made of time"}, {Clause: "L7", Reason: "it was so"}})
	return []*Report{good, bad}
}

// The page of a report tells all that did not pass, the table what was counted.
func TestTable(t *testing.T) {
	reports := specimens()
	var table, page bytes.Buffer
	if err := WriteTable(&table, reports...); err != nil {
		t.Fatal(err)
	}
	if err := writeMarkdown(&page, reports[1]); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| clause ", "| x 2.0 ", "One live hold on a key", "✗ LOCK-02 ✓", "≠ LOCK-05 ✓"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table does not say %q:\n%s", want, table.String())
		}
	}
	if lines := strings.Count(table.String(), "\n|"); lines != len(clauseTitles)+1 {
		t.Errorf("the table has %d lines after the first, want one for each of %d clauses", lines, len(clauseTitles))
	}
	for _, want := range []string{
		"LOCK-02, fail: saw two holders", "LOCK-05, deviation: tokens are made of time", "LOCK-15, unproven: ",
		"LOCK-50, unsupported: yet the case passes", "the deviation from clause L7 is declared, but it passes",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page does not say %q:\n%s", want, page.String())
		}
	}
}

// What a store says of itself is text, whatever it says.
func TestTableEscapes(t *testing.T) {
	const hostile = "<script>alert(1)</script>\"'|`*_[x](y)&amp;\n# head"
	r := specimens()[1]
	r.Store.Name, r.Store.Server = hostile, ""
	for i := range r.Results {
		r.Results[i].Reason, r.Results[i].Name = hostile, hostile
		r.Results[i].Messages = []Message{{Failure: true, At: hostile, Text: hostile}}
	}
	var b bytes.Buffer
	if err := writeMarkdown(&b, r); err != nil {
		t.Fatal(err)
	}
	if page := b.String(); strings.Contains(page, "<script") || regexp.MustCompile(`[^\\][\x60|]x|[^\\]\[x\]|(?m)^# head`).MatchString(page) {
		t.Error("the page has the store's own markup in it")
	}
	for line := range strings.Lines(b.String()) {
		if strings.HasPrefix(line, "| L1 ") && strings.Count(strings.ReplaceAll(line, `\|`, ""), "|") != 3 {
			t.Errorf("a row has been split: %s", line)
		}
	}
}

// The titles of the clauses are the contract's.
func TestClauseTitles(t *testing.T) {
	var want []string
	for _, page := range []string{"../docs/contract.md", "../docs/contract-limits.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^### ((?:SH|[CDELMR])\d+ .*)$`).FindAllStringSubmatch(string(text), -1) {
			want = append(want, m[1])
		}
	}
	var got []string
	for _, c := range clauseTitles {
		got = append(got, c.id+" "+c.title)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the clauses are %q, the contract has %q", got, want)
	}
}
