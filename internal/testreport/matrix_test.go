package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMatrix(t *testing.T) {
	const run = `{"Action":"pass","Package":"p","Test":"TestConformance/LOCK-01/x"}
{"Action":"output","Package":"p","Test":"TestConformance/LOCK-02/x","Output":"x.go:1: unsupported: not claimed\n"}
{"Action":"skip","Package":"p","Test":"TestConformance/LOCK-02/x"}
{"Action":"output","Package":"p","Test":"TestConformance/LOCK-39/x","Output":"x.go:1: unproven: no hook\n"}
{"Action":"skip","Package":"p","Test":"TestConformance/LOCK-39/x"}
{"Action":"fail","Package":"p","Test":"TestConformance/LIMIT-05/x"}
{"Action":"output","Package":"p","Test":"TestConformance","Output":"    x.go:1: redis 7.0.15: 1 passed, 1 failed, 1 unsupported, 1 unproven in 4s; seed 1\n"}
{"Action":"pass","Package":"p","Test":"TestConformanceCutOff/LOCK-01/x"}
`
	r := newReport()
	if err := r.read(strings.NewReader(run), new(strings.Builder)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "matrix.md")
	if err := r.writeMatrix(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| clause                      | redis 7.0.15  |\n",
		"| L1 One live hold on a key   | ✓ 1 – 1 ? 1   |\n",
		"| R1 Never above the bound    | ✗ LIMIT-05    |\n",
	} {
		if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
	if strings.Count(string(text), "| C1") != 0 {
		t.Errorf("the table has a clause without cases:\n%s", text)
	}
	if err := newReport().writeMatrix(path); err == nil {
		t.Error("a table of no stores was written")
	}
}
