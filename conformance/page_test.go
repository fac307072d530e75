package conformance

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

// specimens are reports with one of everything.
func specimens() []*Report {
	good := passed(driver.AllClaims(), nil)
	good.Store.Settings = map[string]string{"topology": "3 members"}
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
			r.Measures = Measures{Times: map[string]Spread{wakeUp: {N: 100, Min: 20 * time.Microsecond, P50: 90 * time.Microsecond, P99: 2 * time.Millisecond, Max: 31 * time.Millisecond}}}
		case "LIMIT-01":
			r.Measures = Measures{Counts: map[string]int64{granted: 250, overBound: 3}}
		}
	}
	bad.summarize([]Deviation{{Case: "LOCK-05", Reason: "tokens are made of time"}, {Clause: "L7", Reason: "it was so"}})
	return []*Report{good, bad}
}

func html(t *testing.T, reports ...*Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteHTML(&b, reports...); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func markdown(t *testing.T, reports ...*Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteMarkdown(&b, reports...); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Both pages tell all that there is to tell, the deviations first.
func TestPagesAreComplete(t *testing.T) {
	for name, page := range map[string]string{"HTML": html(t, specimens()...), "Markdown": markdown(t, specimens()...)} {
		text := strings.NewReplacer("**", "", `\_`, "_").Replace(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, ""))
		for _, want := range []string{
			"x 2.0", "3 members", "tokens are made of time", "failed as declared: LOCK-05", "declared, but it passes: remove it",
			"saw two holders", "cases_exclusion.go:80", "Usual remedy: compare the holder", "does not meet: LOCK-02, LOCK-05", "meets",
			"on trust", "could", "wake-up, p99", "2ms", "over-admission, permits", "One live hold on a key", "✗ LOCK-02", "✓ 5",
			"tokens-rise-over-holders", "yet the case passes",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the page in %s does not say %q", name, want)
			}
		}
		deviations, results := strings.Index(page, "Deviations"), strings.Index(page, "Results")
		if deviations < 0 || deviations > results || strings.Index(page, "made of time") > results {
			t.Errorf("the page in %s does not show deviations first", name)
		}
	}
}

// The page is well-formed, and needs nothing from anywhere else.
func TestHTMLStandsAlone(t *testing.T) {
	text := html(t, specimens()...)
	wellFormed(t, text)
	for _, outside := range []string{"http:", "https:", "src=", "href=", "url(", "@import", "<script", "<link"} {
		if strings.Contains(text, outside) {
			t.Errorf("the page has %q in it", outside)
		}
	}
	for _, want := range []string{"prefers-color-scheme: dark", "<svg "} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q in it", want)
		}
	}
}

func wellFormed(t *testing.T, text string) {
	t.Helper()
	for dec := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("the page is not well-formed: %v", err)
		}
	}
}

// What a store says of itself is text, whatever it says.
func TestPagesEscape(t *testing.T) {
	const hostile = "<script>alert(1)</script>\"'|`*_[x](y)&amp;\n# head"
	reports := specimens()
	for _, r := range reports {
		r.Store.Name, r.Store.Server = hostile, ""
		r.Store.Settings = map[string]string{hostile: hostile, "topology": hostile}
		r.Adapter.Package, r.Store.Mute = hostile, hostile
		for i := range r.Results {
			r.Results[i].Reason, r.Results[i].Name = hostile, hostile
			r.Results[i].Messages = []Message{{Failure: true, At: hostile, Text: hostile}}
			r.Results[i].Measures = Measures{Times: map[string]Spread{hostile: {N: 1, Max: 1}}}
		}
		r.summarize([]Deviation{{Case: hostile, Reason: hostile}})
	}
	page := html(t, reports...)
	wellFormed(t, page)
	if strings.Contains(page, "<script") || strings.Contains(page, "alert(1)\"") {
		t.Error("the page in HTML has the store's own markup in it")
	}
	page = markdown(t, reports...)
	if strings.Contains(page, "<script") || regexp.MustCompile(`[^\\][\x60|]x|[^\\]\[x\]|(?m)^# head`).MatchString(page) {
		t.Error("the page in Markdown has the store's own markup in it")
	}
	// No cell has split its row.
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "| **L1**") && strings.Count(strings.ReplaceAll(line, `\|`, ""), "|") != 4 {
			t.Errorf("a row has been split: %s", line)
		}
	}
}

// The titles of the clauses are the contract's.
// Cases stand in the order of their ids, as in the list of cases, and not LOCK-201 before LOCK-21.
func TestPagesOrderCases(t *testing.T) {
	all := Cases()
	r := &Report{Schema: Schema}
	for i := range all {
		r.Results = append(r.Results, Result{Case: all[i], Outcome: Pass})
	}
	for i, line := range newPage([]*Report{r}).Cases {
		if line.Head != all[i].ID {
			t.Fatalf("row %d is of %s, want %s", i, line.Head, all[i].ID)
		}
	}
}

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
