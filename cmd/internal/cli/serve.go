package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/otelcoord"
	"github.com/coordgo/coord/server"
)

const serveLong = `Gives the locks and limits of the store to programs in any language, by HTTP with JSON and by gRPC, as
docs/serve.md describes it. The section serve of the file that --config names says where
to listen, and who may do what. Without it coord listens on 127.0.0.1:8470, for this machine alone,
and not for gRPC.

The first line of output is the address, the second that for gRPC. The log, on standard error, has a line for each
request. A changed file is reloaded: its limits, rules and callers are taken, if it has no mistake.

After TERM or INT coord grants and renews nothing more, and ends when every remote holder
has released or knows that its hold is over, at the latest after serve.drain. A second
signal ends it at once. What is held then ends with its lease.`

const serveExample = `  coord serve --config coord.yaml
  curl --json '{"key":"backup","ttl_ms":30000}' http://127.0.0.1:8470/v1/locks/acquire`

func (a *App) serve() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "serve",
		Short:             "Serve locks and limits by HTTP and gRPC",
		Long:              serveLong,
		Example:           serveExample,
		Args:              none,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.store.load(cmd.Context())
			if err != nil {
				return err
			}
			var h slog.Handler = slog.NewTextHandler(a.stderr, nil)
			if asJSON {
				h = slog.NewJSONHandler(a.stderr, nil)
			}
			return a.runServe(cmd.Context(), cfg, slog.New(h))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "log lines of JSON")
	return cmd
}

// reloadEvery is how often the file is looked at.
const reloadEvery = 5 * time.Second

// ballast is never touched. But the garbage collector counts it, and so waits until there is as much new garbage, and not
// the 4 MB of a small server: under load it runs ten times a second in place of a hundred, and the server has some 80 MB
// in place of 45. Who bounds the memory, or sets the collector, has none.
func ballast() []byte {
	if os.Getenv("GOGC") != "" || debug.SetMemoryLimit(-1) < math.MaxInt64 {
		return nil
	}
	return make([]byte, 32<<20)
}

func (a *App) runServe(ctx context.Context, cfg *config.Config, log *slog.Logger) (err error) {
	defer runtime.KeepAlive(ballast())
	errs := logSDK(log)
	meters, metrics, err := newMetrics()
	if err != nil {
		return err
	}
	traces, endTraces, err := newTraces(ctx, errs)
	if err != nil {
		return Exit(ExitConfig, "serve: %w", err)
	}
	defer endTraces()
	observing := []otelcoord.Option{otelcoord.WithMeterProvider(meters)}
	if traces != nil {
		observing = append(observing, otelcoord.WithTracerProvider(traces))
	}
	observer, err := otelcoord.New(observing...)
	if err != nil {
		return err
	}
	opts := []coord.Option{coord.WithObserver(observer), coord.WithLogger(log)}
	var decisions *server.Decisions
	if cfg.Serve.Page != config.PageNone {
		decisions = new(server.Decisions)
		opts = append(opts, coord.WithObserver(decisions.Observer()))
	}
	client, err := OpenConfig(ctx, cfg, opts...)
	if err != nil {
		return Cause(ctx, err)
	}
	defer func() {
		if !errors.Is(err, server.ErrUndrained) { // else its leases outlive it
			closeInto(client, &err)
			return
		}
		log.Warn(OneLine(err))
		err = nil
	}()
	s, err := server.New(ctx, client, server.Options{Log: log, Meter: meters, Tracer: traces, Metrics: metrics, Decisions: decisions})
	if err != nil {
		return Cause(ctx, Exit(ExitConfig, "serve: %w", err))
	}
	l, err := s.Listen(ctx)
	if err != nil {
		return Exit(ExitUnavailable, "%w", err)
	}
	g, err := s.ListenGRPC(ctx)
	if err != nil {
		_ = l.Close()
		return Exit(ExitUnavailable, "%w", err)
	}
	a.Printf("listening on %s\n", l.Addr())
	if g != nil {
		a.Printf("listening on %s (gRPC)\n", g.Addr())
	}
	if a.store.file != "" {
		go client.Watch(ctx, reloadEvery, func(err error) { reloaded(ctx, s, log, err) })
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l, g) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	again, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	defer a.signals.Ending(end)()
	log.Info("ending", "cause", fmt.Sprint(context.Cause(ctx)), "drain", cfg.Serve.WithDefaults().Drain)
	select {
	case err := <-served:
		return err
	case <-again.Done():
		return fmt.Errorf("%w: %w", server.ErrUndrained, context.Cause(again))
	}
}

func reloaded(ctx context.Context, s *server.Server, log *slog.Logger, err error) {
	if err != nil {
		log.Error("the file was not reloaded: what it said before stays in force", "error", OneLine(err))
		return
	}
	if err := s.Reload(ctx); err != nil {
		log.Error("the callers were not reloaded: those from before stay in force", "error", OneLine(err))
		return
	}
	log.Info("the file was reloaded")
}

// newMetrics gives what measures, and what shows it to Prometheus.
func newMetrics() (*metric.MeterProvider, http.Handler, error) {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	if err != nil {
		return nil, nil, err
	}
	return metric.NewMeterProvider(metric.WithReader(reader)), promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), nil
}
