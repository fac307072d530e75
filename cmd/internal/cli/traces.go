package cli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// spansTime bounds how long the last spans may take.
const spansTime = 5 * time.Second

// newTraces gives what exports spans by OTLP, if OpenTelemetry's variables of the environment ask for it, and end, which
// sends the last ones. What they say of addresses, certificates, headers, names and samples the SDK reads itself.
func newTraces(ctx context.Context, log *slog.Logger) (_ trace.TracerProvider, end func(), err error) {
	client, err := spanClient()
	if client == nil || err != nil {
		return noop.NewTracerProvider(), func() {}, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("spans were not exported", "error", OneLine(err)) }))
	spans, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, nil, err
	}
	name, err := resource.Merge(resource.NewSchemaless(attribute.String("service.name", "coord")), resource.Environment())
	if err != nil {
		return nil, nil, err
	}
	p := sdk.NewTracerProvider(sdk.WithBatcher(spans), sdk.WithResource(name))
	return p, func() {
		ctx, cancel := context.WithTimeout(context.Background(), spansTime)
		defer cancel()
		if err := p.Shutdown(ctx); err != nil {
			log.Warn("the last spans were not exported", "error", OneLine(err))
		}
	}, nil
}

// spanClient is nil where nothing is to be exported.
func spanClient() (otlptrace.Client, error) {
	to := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
	switch kind := os.Getenv("OTEL_TRACES_EXPORTER"); {
	case os.Getenv("OTEL_SDK_DISABLED") == "true" || kind == "none" || kind == "" && to == "":
		return nil, nil
	case kind != "" && kind != "otlp":
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER=%q: want otlp or none", kind)
	}
	switch protocol := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL")); protocol {
	case "grpc":
		return otlptracegrpc.NewClient(), nil
	case "", "http/protobuf":
		return otlptracehttp.NewClient(), nil
	default:
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL=%q: want grpc or http/protobuf", protocol)
	}
}
