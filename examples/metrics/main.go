// Command metrics is a small service whose locks and limits can be seen in Prometheus:
//
//	go run ./metrics --url redis://localhost:6379 --listen localhost:2112
//	curl localhost:2112/metrics
//
// A few workers take turns at a lock and share a limit, so that there is something to see. Import
// otelcoord/dashboard.json into Grafana to see it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/all"
	"github.com/coordgo/coord/otelcoord"
)

func main() {
	url := flag.String("url", "memory://metrics", "the store")
	listen := flag.String("listen", "localhost:2112", "address of /metrics")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	l, err := net.Listen("tcp", *listen)
	if err == nil {
		fmt.Printf("http://%s/metrics\n", l.Addr())
		err = run(ctx, *url, l)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run works and serves /metrics on l until ctx ends.
func run(ctx context.Context, url string, l net.Listener) (err error) {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	if err != nil {
		return err
	}
	meters := metric.NewMeterProvider(metric.WithReader(reader))
	defer func() { err = errors.Join(err, meters.Shutdown(context.WithoutCancel(ctx))) }()
	observer, err := otelcoord.New(otelcoord.WithMeterProvider(meters), otelcoord.WithKey(class))
	if err != nil {
		return err
	}
	client, err := coord.Open(ctx, url, coord.WithObserver(observer))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() { work(ctx, client) })
	}
	defer workers.Wait()
	return serve(ctx, l, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
}

// class is what may be shown of a key: its kind. The rest of it has too many values.
func class(key string) string {
	kind, _, _ := strings.Cut(key, "/")
	return kind
}

func serve(ctx context.Context, l net.Listener, handler http.Handler) error {
	mux := http.NewServeMux()
	mux.Handle("/metrics", handler)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// supplier admits 20 calls in any second, to all processes together.
var supplier = coord.PerSecond(20)

// work handles orders: one at a time each, within the supplier's limit. Most orders are refused
// by the limit, and some by a worker who has the same one; both show in the metrics.
func work(ctx context.Context, client *coord.Client) {
	for ctx.Err() == nil {
		order := coord.Key("order", fmt.Sprint(rand.N(3)))
		err := coord.Do(ctx, client, order, func(ctx context.Context) error {
			r, err := client.Allow(ctx, "supplier", supplier)
			if err != nil || !r.Allowed {
				return err
			}
			return client.Wait(ctx, "mail", coord.PerSecond(50))
		}, coord.TTL(5*time.Second), coord.WaitAtMost(time.Second))
		if err != nil && ctx.Err() == nil {
			log.Print(err)
		}
		_, _ = client.TryLock(ctx, order, coord.NoRenew(), coord.TTL(50*time.Millisecond)) // a holder that forgets
		pause(ctx, rand.N(20*time.Millisecond))
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
