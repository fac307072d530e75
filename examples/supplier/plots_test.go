package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord/examples/internal/exampletest"
)

var update = flag.Bool("update", false, "write the table of the page from what was measured")

const (
	plotsEnv = "COORD_SUPPLIER_PLOTS" // how long to call
	plots    = "../../docs/examples/supplier"
)

var section = exampletest.Section{
	Page: "../../docs/examples.md", Begin: "<!-- supplier: written by make supplier-plots -->\n", End: "<!-- end of supplier -->",
	Remake: "make supplier-plots, or go test ./supplier -run TestPage -update",
}

// TestPlots measures what the page shows, on each store in turn.
func TestPlots(t *testing.T) {
	during, err := time.ParseDuration(os.Getenv(plotsEnv))
	if err != nil {
		t.Skip("unsupported: a minute on every store is make supplier-plots, which sets " + plotsEnv)
	}
	for _, store := range exampletest.EveryStore {
		t.Run(store, func(t *testing.T) {
			file := filepath.Join(plots, store)
			exampletest.Kept(t, "--url", exampletest.URL(t, store), "--rate", "200", "--per", "1s", "--for", during.String(),
				"--svg", file+".svg", "--json", file+".json")
		})
	}
}

// The page says what was measured.
func TestPage(t *testing.T) { section.Says(t, table(t), *update) }

// table has a line for each store.
func table(t *testing.T) string {
	var b strings.Builder
	for i, store := range exampletest.EveryStore {
		r := read(t, filepath.Join(plots, store+".json"))
		if r.Store != store || r.Most > r.Rate || r.Calls != sum(r.Counts) || r.InOne != (store == "memory") {
			t.Errorf("%s: %+v", store, r)
		}
		if i == 0 {
			fmt.Fprintf(&b, "%d callers, %d calls in any %v, wanted %v times as many, for %v; %s, %s/%s, %d processors.\n\n", r.Processes, r.Rate, r.Per, r.Load, r.For, r.When, r.OS, r.Arch, r.CPUs)
			b.WriteString("| store | calls | denied | most in any window | of the bound | of all that was allowed | |\n| --- | ---: | ---: | ---: | ---: | ---: | --- |\n")
		}
		fmt.Fprintf(&b, "| %s | %d | %d | **%d** | %.1f %% | %.1f %% | [plot](examples/supplier/%s.svg) |\n", exampletest.Named(r.Store, r.Server), r.Calls, r.Denied, r.Most,
			100*float64(r.Most)/float64(r.Rate), 100*float64(r.Calls)*float64(r.Per)/(float64(r.Rate)*float64(r.For)), store)
	}
	return b.String()
}
