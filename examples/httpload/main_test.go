package main

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord/examples/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// short is a run that a test has time for.
var short = []string{"--requests", "1500", "--connections", "20", "--bound", "700", "--for", "1s", "--rounds", "1"}

// wantTools skips a test where there is nothing to put load on with, unless that must be there.
func wantTools(t *testing.T) {
	t.Helper()
	for _, name := range []string{"hey", "wrk"} {
		if _, err := exec.LookPath(name); err == nil {
			continue
		}
		why := name + " is not here; scripts/stores " + name + " installs it"
		if slices.Contains(strings.Split(os.Getenv("COORD_TEST_REQUIRE"), ","), name) {
			t.Fatal(why + ", and COORD_TEST_REQUIRE names it")
		}
		t.Skip("unsupported: " + why)
	}
}

func TestBoundsHoldUnderLoad(t *testing.T) {
	wantTools(t)
	for _, store := range []string{"memory", "redis"} {
		t.Run(store, func(t *testing.T) {
			url := "memory://"
			if store != "memory" {
				url = exampletest.URL(t, store)
			}
			said := exampletest.Kept(t, append(short, "--url", url)...)
			if !strings.Contains(said, "3000 requests: 700 were admitted of 700, 2300 denied") || !strings.Contains(said, "two limits") {
				t.Error("it says something else")
			}
		})
	}
}

// Servers that count for themselves admit twice as much: that is seen.
func TestEachForItselfIsAbove(t *testing.T) {
	wantTools(t)
	exampletest.Broken(t, append(short, "--alone", "--rounds", "0")...)
}

// An answer with fields that say something wrong is found.
func TestLedgerReads(t *testing.T) {
	const policy, limit = `"a";q=5;w=60`, `"a";r=0;t=3`
	l := &ledger{policies: map[string]int64{"a": 5}}
	for _, tt := range []struct {
		code                 int
		policy, limit, after string
		ok                   bool
	}{
		{200, policy, limit, "", true},
		{429, policy, limit, "3", true},
		{200, policy, limit, "3", false},
		{429, policy, limit, "", false},
		{429, policy, limit, "0", false},
		{429, policy, limit, "soon", false},
		{429, policy, `"a";r=1;t=3`, "3", false},
		{503, policy, limit, "", false},
		{200, `"a";q=6;w=60`, limit, "", false},
		{200, `"b";q=5;w=60`, limit, "", false},
		{200, `a;q=5`, limit, "", false},
		{200, `"a";q=5.5`, limit, "", false},
		{200, `"a`, limit, "", false},
		{200, `("a");q=5`, limit, "", false},
		{200, policy, `"a";t=3`, "", false},
		{200, policy, "", "", false},
		{200, "", "", "", false},
	} {
		h := make(http.Header)
		h.Set("RateLimit-Policy", tt.policy)
		h.Set("RateLimit", tt.limit)
		h.Set("Retry-After", tt.after)
		if err := l.read(tt.code, h); (err == nil) != tt.ok {
			t.Errorf("%+v: %v", tt, err)
		}
	}
	l.malformed, l.first = 2, errors.New("x")
	if l.err() == nil {
		t.Error("malformed answers are forgotten")
	}
}

func TestMost(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(0, int64(ms)*1e6) }
	l := &ledger{admitted: []admission{{at(20), at(31)}, {at(10), at(12)}, {at(22), at(23)}, {at(40), at(41)}}}
	for d, want := range map[int]int{1: 0, 3: 1, 13: 2, 14: 2, 22: 3, 32: 4} {
		if got := l.most(time.Duration(d) * time.Millisecond); got != want {
			t.Errorf("in %d ms: %d, want %d", d, got, want)
		}
	}
}
