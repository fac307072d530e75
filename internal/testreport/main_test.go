package main

import (
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	const (
		start = `{"Action":"start","Package":"p"}` + "\n"
		run   = `{"Action":"run","Package":"p","Test":"TestA"}` + "\n"
		say   = `{"Action":"output","Package":"p","Test":"TestA","Output":"a_test.go:7: boom\n"}` + "\n"
		leak  = `{"Action":"output","Package":"p","Output":"found a goroutine\n"}` + "\n"
		gone  = `{"Action":"fail","Package":"p","Elapsed":1.5}` + "\n"
		pass  = `{"Action":"pass","Package":"p","Test":"TestA"}` + "\n" + `{"Action":"pass","Package":"p","Elapsed":1.5}` + "\n"
		fail  = `{"Action":"fail","Package":"p","Test":"TestA"}` + "\n" + `{"Action":"fail","Package":"p","Elapsed":1.5}` + "\n"
		skip  = `{"Action":"skip","Package":"p","Test":"TestA"}` + "\n" + `{"Action":"pass","Package":"p"}` + "\n"
		kase  = `{"Action":"%","Package":"p","Test":"TestConformance/LOCK-01/x"}` + "\n"
		why   = `{"Action":"output","Package":"p","Test":"TestConformance/LOCK-01/x","Output":"x.go:1: unsupported: not claimed\n"}` + "\n"
		way   = `{"Action":"output","Package":"p","Test":"TestConformance","Output":"    s.go:1: testserver: a child process\n"}` + "\n"
		store = `{"Action":"output","Package":"p","Test":"TestConformance","Output":"    x.go:1: redis 7.0.15: 85 passed, 0 failed, 4 unsupported, 0 unproven in 4s; seed 1\n"}` + "\n"
	)
	with := func(action string) string { return strings.Replace(kase, "%", action, 1) }
	for _, tc := range []struct {
		name, in string
		good     bool
		want     []string
	}{
		{"passed", start + run + say + pass, true, []string{"pass  p", "1 passed, 0 failed, 0 skipped"}},
		{"failed", start + run + say + fail, false, []string{"fail  p                                                          1.5s\n      failed: TestA\n", "boom", "0 passed, 2 failed"}},
		{"failed after its tests", start + run + say + leak + pass + gone, false, []string{"found a goroutine", "1 passed, 1 failed"}},
		{"skipped in silence", start + run + say + skip, false, []string{"skipped: p TestA: a_test.go:7: boom", "0 passed, 0 failed, 1 skipped"}},
		{"nothing ran", start, false, []string{"never ended: p", "0 passed"}},
		{"cut off", start + run + say, false, []string{"never ended: p TestA", "boom"}},
		{"not built", "# p\nx.go:1: syntax error\n" + `{"Action":"fail","Package":"p"}` + "\n", false, []string{"syntax error", "1 failed"}},
		{"conformance", start + with("pass") + why + with("skip") + run + way + store + pass, true, []string{
			"   1 × unsupported: not claimed", "store redis 7.0.15: 85 passed, 0 failed, 4 unsupported, 0 unproven in 4s; seed 1 (a child process)",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out strings.Builder
			r := newReport()
			if err := r.read(strings.NewReader(tc.in), &out); err != nil {
				t.Fatal(err)
			}
			if good := r.print(&out); good != tc.good {
				t.Errorf("good is %v", good)
			}
			for _, want := range tc.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("output lacks %q:\n%s", want, out.String())
				}
			}
		})
	}
}
