package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/coordgo/coord/cmd/internal/child"
	"github.com/coordgo/coord/internal/testserver"
)

// benched is what coord-conform bench --json writes, as far as the tests look.
type benched struct {
	Schema   int
	Complete bool
	URL      string
	Store    string
	Machine  struct{ Cores int }
	Results  []struct {
		Name, Failed string
		PerSecond    float64 `json:"per_second"`
		P50US        float64 `json:"p50_us"`
		DrainMS      float64 `json:"drain_ms"`
		Overlaps     *int
	}
}

func readBenched(t *testing.T, path string) (b benched) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &b); err != nil {
		t.Fatal(err)
	}
	return b
}

// benchNames are all that is measured.
var benchNames = []string{"lock", "lock-keys", "lock-contended", "lock-clients", "lock-wake", "lock-herd", "limit", "limit-hot", "limit-keys", "limit-denied"}

// What it measures of each store is the same.
func TestBench(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(*testing.T) string{
		"memory": func(*testing.T) string { return "memory://" },
		"redis":  func(t *testing.T) string { return "redis://" + testserver.Redis(t).Addr },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t, "")
			u.run("bench", url(t), "--for", "100ms", "--json", u.path("b.json")).want(t, 0, "lock-herd ", "")
			b := readBenched(t, u.path("b.json"))
			if !b.Complete || b.Schema != 1 || b.Store != name || b.Machine.Cores < 1 || len(b.Results) != len(benchNames) {
				t.Fatalf("%+v", b)
			}
			for i, r := range b.Results {
				measured := r.PerSecond > 0 || r.Name == "lock-wake" && r.P50US > 0 || r.Name == "lock-herd" && r.DrainMS > 0
				if r.Name != benchNames[i] || r.Failed != "" || !measured {
					t.Errorf("%+v: want figures of %s", r, benchNames[i])
				}
				if strings.HasPrefix(r.Name, "lock") && (r.Overlaps == nil || *r.Overlaps != 0) {
					t.Errorf("%s: overlaps %v", r.Name, r.Overlaps)
				}
			}
		})
	}
}

func TestBenchIsASelection(t *testing.T) {
	t.Parallel()
	u := newUser(t, "redis://:secret@"+testserver.Redis(t, testserver.WithPassword("secret")).Addr)
	r := u.run("bench", "--for", "20ms", "--run", "^limit-(hot|denied)$", "--json", u.path("b.json"))
	r.want(t, 0, "limit-denied", "")
	b := readBenched(t, u.path("b.json"))
	if b.Complete || len(b.Results) != 2 {
		t.Errorf("%+v", b)
	}
	if strings.Contains(r.stdout+b.URL, "secret") {
		t.Error("the password is shown")
	}
}

func TestBenchUsage(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	u.run("bench").want(t, 64, "", "no URL")
	u.run("bench", "memory://", "--for", "1ms").want(t, 64, "", "--for 1ms: want 10ms to 10m")
	u.run("bench", "memory://", "--run", "(").want(t, 64, "", "--run")
	u.run("bench", "memory://", "--run", "nothing").want(t, 64, "", "nothing that is measured has such a name")
	u.run("bench", "redis://127.0.0.1:1").want(t, 69, "", "store unavailable")
	u.run("bench", "memory://", "--for", "10ms", "--run", "^limit$", "--json", "no/where.json").want(t, 73, "", "no/where.json")
}

// A signal ends it, and what was measured until then is shown and written.
func TestBenchInterrupted(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	ctx, interrupt := context.WithCancelCause(t.Context())
	out, stdout := io.Pipe()
	go func() {
		said := bufio.NewScanner(out)
		said.Scan() // it has begun
		interrupt(child.Interrupted{Signal: syscall.SIGINT})
		for said.Scan() { // until it ends
		}
	}()
	r := u.runInto(ctx, stdout, "bench", "memory://", "--for", "10m", "--run", "^lock", "--json", u.path("b.json"))
	if r.code != 128+int(syscall.SIGINT) || r.stderr != "" {
		t.Errorf("exit status %d, %s", r.code, r.stderr)
	}
	if b := readBenched(t, u.path("b.json")); b.Complete {
		t.Errorf("%+v counts as complete", b)
	}
}
