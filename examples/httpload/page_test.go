package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coordgo/coord/examples/internal/exampletest"
)

var update = flag.Bool("update", false, "write the tables of the page from what was measured")

const (
	measureEnv = "COORD_HTTPLOAD_ROUNDS" // how often the cost is measured
	results    = "../../docs/generated/performance/http"
)

var section = exampletest.Section{
	Page: "../../docs/generated/http-load.md", Begin: "<!-- load: written by make bench-http -->\n", End: "<!-- end of load -->",
	Remake: "make bench-http, or go test ./httpload -run TestPage -update",
}

// TestMeasure measures what the page shows, on each store in turn.
func TestMeasure(t *testing.T) {
	n := os.Getenv(measureEnv)
	if n == "" {
		t.Skip("unsupported: load on every store is make bench-http, which sets " + measureEnv)
	}
	for _, store := range exampletest.EveryStore {
		t.Run(store, func(t *testing.T) {
			url := "memory://"
			if store != "memory" {
				url = exampletest.URL(t, store)
			}
			exampletest.Kept(t, "--url", url, "--rounds", n, "--json", filepath.Join(results, store+".json"))
		})
	}
}

// The page says what was measured.
func TestPage(t *testing.T) { section.Says(t, tables(t), *update) }

// tables has what was admitted, and what it cost.
func tables(t *testing.T) string {
	var bounds, costs strings.Builder
	var first report
	for i, store := range exampletest.EveryStore {
		r := read(t, store)
		if r.Store != store || r.Held.Admitted != r.Held.Bound || r.Rate.Most > r.Rate.Rate {
			t.Errorf("%s: %+v", store, r)
		}
		if i == 0 {
			first = r
		}
		fmt.Fprintf(&bounds, "| %s | %d | **%d** | %d | %d | **%d** |\n", exampletest.Named(r.Store, r.Server), r.Held.Requests, r.Held.Admitted, r.Rate.Requests, r.Rate.Admitted, r.Rate.Most)
		for _, c := range r.Costs {
			fmt.Fprintf(&costs, "| %s, %s | %.1f | %.2f | %.0f | %.2f | %.0f |\n", exampletest.Named(r.Store, r.Server), c.Handler, c.CPU, c.TimesCPU, c.Mean, c.TimesMean, c.P99)
		}
	}
	return fmt.Sprintf("Measured on %s with %s on %s/%s, %d processors, which servers, clients and stores share.\n\n", first.When, first.Go, first.OS, first.Arch, first.CPUs) +
		fmt.Sprintf("| | hey sent, under %d/1h | admitted | wrk sent in %v, under %d/%v | admitted | most in any %v |\n| --- | ---: | ---: | ---: | ---: | ---: |\n",
			first.Held.Bound, first.Rate.For, first.Rate.Rate, first.Rate.Per, first.Rate.Per) + bounds.String() +
		fmt.Sprintf("\nWhat a request costs, by hey on %d connections, medians of %d rounds of %d requests each way in turn:\n\n", first.Connections, first.Rounds, first.Requests) +
		"| | processor time of the server, µs | × bare | mean time, µs | × bare | p99, µs |\n| --- | ---: | ---: | ---: | ---: | ---: |\n" + costs.String()
}

func read(t *testing.T, store string) (r report) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(results, store+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r
}
