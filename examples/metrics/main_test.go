package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.uber.org/goleak"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/examples/internal/exampletest"
	"github.com/coordgo/coord/otelcoord"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scrape reads the samples of /metrics: by name, the labels of one of them.
func scrape(t *testing.T, url string) map[string]string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	samples := make(map[string]string)
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if name, labels, ok := strings.Cut(lines.Text(), "{"); ok && !strings.HasPrefix(name, "#") {
			samples[name] = labels
		}
	}
	return samples
}

var (
	selector = regexp.MustCompile(`\b(coord_[a-z_]+)\{`)
	variable = regexp.MustCompile(`^label_values\((coord_[a-z_]+),`)
)

// shown are the metrics that the dashboard asks for.
func shown(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../otelcoord/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels     []struct{ Targets []struct{ Expr string } }
		Templating struct {
			List []struct{ Query json.RawMessage } // a string, or an object with a query
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			found := selector.FindAllStringSubmatch(q.Expr, -1)
			if len(found) == 0 {
				t.Errorf("no metric in %s", q.Expr)
			}
			for _, m := range found {
				names[m[1]] = true
			}
		}
	}
	for _, v := range d.Templating.List {
		var q struct{ Query string }
		if json.Unmarshal(v.Query, &q) != nil { // the datasource
			continue
		}
		if m := variable.FindStringSubmatch(q.Query); m != nil {
			names[m[1]] = true
		}
	}
	if len(names) < 10 {
		t.Errorf("the dashboard asks only for %v", names)
	}
	return names
}

// Every metric has the name by which the dashboard asks for it.
func TestNamesOfTheDashboard(t *testing.T) {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	if err != nil {
		t.Fatal(err)
	}
	o, err := otelcoord.New(otelcoord.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))))
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	o.WaitBegan(ctx, coord.WaitBegan{})
	o.Acquired(ctx, coord.Acquired{})
	o.Reentered(ctx, coord.Reentered{})
	o.Renewed(ctx, coord.Renewed{})
	o.Lost(ctx, coord.Lost{})
	o.Allowed(ctx, coord.Decision{Granted: 1})
	o.LeaseEnded(ctx, coord.LeaseEnded{Spent: 1})
	o.CallEnded(ctx, coord.CallEnded{Call: coord.Call{Op: "wait"}})
	o.StoreCalled(ctx, coord.StoreCall{Err: io.ErrUnexpectedEOF})
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer server.Close()
	samples := scrape(t, server.URL)
	for name := range shown(t) {
		if _, ok := samples[name]; !ok {
			t.Errorf("the dashboard asks for %s; there are %v", name, slices.Sorted(maps.Keys(samples)))
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// What the dashboard asks for comes from a service that works; the keys of orders do not get there.
func TestMetricsOfTheDashboard(t *testing.T) {
	for _, name := range append([]string{"memory"}, exampletest.Stores...) {
		t.Run(name, func(t *testing.T) {
			url := exampletest.URL(t, name)
			l, err := net.Listen("tcp", "localhost:0")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- run(ctx, url, l) }()

			missing := shown(t)
			// Nobody breaks the store, re-enters or leases permits here; what counts that has no samples.
			for _, quiet := range []string{"coord_store_errors_total", "coord_lock_reentries_total", "coord_lock_renewals_total", "coord_limit_leased_total"} {
				if !missing[quiet] {
					t.Errorf("the dashboard does not show %s", quiet)
				}
				delete(missing, quiet)
			}
			var samples map[string]string
			for deadline := time.Now().Add(time.Minute); len(missing) > 0; {
				samples = scrape(t, "http://"+l.Addr().String()+"/metrics")
				for name := range missing {
					if _, ok := samples[name]; ok {
						delete(missing, name)
					}
				}
				if time.Now().After(deadline) {
					t.Fatalf("not in /metrics: %v", missing)
				}
			}
			labels := samples["coord_lock_hold_duration_seconds_count"]
			if !strings.Contains(labels, `coord_backend="`+name+`"`) || !strings.Contains(labels, `coord_key="order"`) {
				t.Errorf("labels of a hold: %s", labels)
			}
			for name, labels := range samples {
				if strings.Contains(labels, "order/") {
					t.Errorf("%s has a key: %s", name, labels)
				}
			}
			http.DefaultClient.CloseIdleConnections()
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
