package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/all"
	"github.com/coordgo/coord/backends/redis"
	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/quorum"
)

const (
	root  = "../../.."
	again = "run make reports"
)

func reports(t *testing.T) []*conformance.Report {
	t.Helper()
	list, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// The page is what its reports say.
func TestPageIsOfItsReports(t *testing.T) {
	want, err := page(reports(t))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, pagePath))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the reports say: %s", pagePath, again)
	}
}

// The reports are of this suite, whole, of these stores and of what they claim now.
func TestReportsAreOfThisCode(t *testing.T) {
	var cases []string
	for _, c := range conformance.Cases() {
		cases = append(cases, c.ID)
	}
	seen := make(map[string]bool)
	for _, r := range reports(t) {
		name := r.Store.Name + " " + r.Store.Server
		seen[r.Store.Name] = true
		var ran []string
		for _, res := range r.Results {
			ran = append(ran, res.ID)
		}
		if r.Suite != conformance.Version || r.Selection != (conformance.Selection{}) || !slices.Equal(ran, cases) {
			t.Errorf("%s: version %s of the suite, %v, %d cases; the code has version %s and %d cases: %s",
				name, r.Suite, r.Selection, len(ran), conformance.Version, len(cases), again)
		}
		known := []driver.Claims{all.Claims(r.Store.Name)}
		if r.Store.Name == "redis" {
			known = append(known, redis.ClusterClaims, redis.SentinelClaims)
		}
		if r.Store.Name == "quorum" {
			known = []driver.Claims{quorumOfRedis(t)}
		}
		if !slices.ContainsFunc(known, func(c driver.Claims) bool { return slices.Equal(c, r.Store.Claims) }) {
			t.Errorf("%s claims %v in its report, and something else in the code: %s", name, r.Store.Claims, again)
		}
		if r.Failed() || len(r.Summary.Deviations) > 0 {
			t.Errorf("%s: %s", name, r.Line())
		}
	}
	for _, name := range []string{"memory", "file", "redis", "etcd", "zookeeper", "memcached", "postgres", "quorum"} {
		if !seen[name] {
			t.Errorf("no report of %s: %s", name, again)
		}
	}
}

// quorumOfRedis are the claims of a quorum of three servers, which need not be there for that.
func quorumOfRedis(t *testing.T) driver.Claims {
	var members []driver.Backend
	for range 3 {
		members = append(members, quorum.Absent(driver.Info{Name: "redis", Claims: redis.Claims}, driver.ErrNotSent, nil))
	}
	b, err := coord.Quorum(members...)
	if err != nil {
		t.Fatal(err)
	}
	return b.Info().Claims
}

// What is generated is generated again.
func TestGenerate(t *testing.T) {
	dir := t.TempDir()
	if err := generate(dir); err == nil {
		t.Error("a page was made of no reports")
	}
	if err := os.CopyFS(filepath.Join(dir, reportsDir), os.DirFS(filepath.Join(root, reportsDir))); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "conformance"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := generate(dir); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pagePath, durationsPath} {
		want, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, path)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what is generated (%v): %s", path, err, again)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, reportsDir, "old.json"), []byte(`{"schema": 1}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := generate(dir); err == nil {
		t.Error("a page was made of a report of another schema")
	}
}
