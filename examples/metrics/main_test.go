package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.uber.org/goleak"

	"github.com/coordgo/coord/observe"
	"github.com/coordgo/coord/otelcoord"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scrape reads the samples of /metrics: by name, the labels of one of them.
func scrape(t *testing.T, url string) map[string]string {
	t.Helper()
	defer http.DefaultClient.CloseIdleConnections()
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

// shown are the metrics that the dashboard asks for, in panels and for its variables.
func shown(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../otelcoord/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(text) {
		t.Fatal("the dashboard is no JSON")
	}
	names := make(map[string]bool)
	for _, m := range regexp.MustCompile(`\b(coord_[a-z]+_[a-z_]+)(\{|,)`).FindAllStringSubmatch(string(text), -1) {
		names[m[1]] = true
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
	ctx, cancel := context.WithCancel(t.Context())
	o.WaitBegan(ctx, observe.WaitBegan{})
	o.Acquired(ctx, observe.Acquired{})
	o.Reentered(ctx, observe.Reentered{})
	o.Renewed(ctx, observe.Renewed{})
	o.Lost(ctx, observe.Lost{})
	o.Allowed(ctx, observe.Decision{Granted: 1})
	o.LeaseEnded(ctx, observe.LeaseEnded{Spent: 1})
	o.CallEnded(ctx, observe.CallEnded{Call: observe.Call{Op: "wait"}})
	o.StoreCalled(ctx, observe.StoreCall{Err: io.ErrUnexpectedEOF})
	service := serving(ctx, t, func(ctx context.Context, l net.Listener) error {
		return serve(ctx, l, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	})
	defer service.ended()
	defer cancel()
	samples := scrape(t, service.url)
	for name := range shown(t) {
		if _, ok := samples[name]; !ok {
			t.Errorf("the dashboard asks for %s, which is not in /metrics", name)
		}
	}
}

// The service shows its locks, and not the keys of orders.
func TestMetricsOfTheService(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	service := serving(ctx, t, func(ctx context.Context, l net.Listener) error { return run(ctx, "memory://metrics", l) })
	defer service.ended()
	defer cancel()
	var labels string
	for labels == "" && !t.Failed() { // the workers begin at once
		samples := scrape(t, service.url)
		labels = samples["coord_lock_hold_duration_seconds_count"]
		for name, labels := range samples {
			if strings.Contains(labels, "order/") {
				t.Errorf("%s has a key: %s", name, labels)
			}
		}
	}
	if !strings.Contains(labels, `coord_backend="memory"`) || !strings.Contains(labels, `coord_key="order"`) {
		t.Errorf("labels of a hold: %s", labels)
	}
}

// served is a service under test.
type served struct {
	url   string
	ended func()
}

// serving serves until ctx ends.
func serving(ctx context.Context, t *testing.T, serve func(context.Context, net.Listener) error) served {
	t.Helper()
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- serve(ctx, l) }()
	return served{"http://" + l.Addr().String() + "/metrics", func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}}
}
