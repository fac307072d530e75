package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	// spansTime bounds how long the last spans may take.
	spansTime = time.Second
	// spanText bounds an attribute, for callers choose some.
	spanText = 1024
)

// newTraces gives what exports spans by OTLP, and end, which sends the last ones. It is nil unless OpenTelemetry's variables
// of the environment ask for it. What they say of addresses, certificates, headers, names and samples the SDK reads itself.
func newTraces(ctx context.Context, errs *sdkErrors) (_ trace.TracerProvider, end func(), err error) {
	client, err := spanClient()
	if client == nil || err != nil {
		return nil, func() {}, err
	}
	spans, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, nil, err
	}
	name, err := resource.Merge(resource.NewSchemaless(attribute.String("service.name", "coord")), resource.Environment())
	if err != nil {
		return nil, nil, err
	}
	limits := sdk.NewSpanLimits()
	if limits.AttributeValueLengthLimit < 0 {
		limits.AttributeValueLengthLimit = spanText
	}
	p := sdk.NewTracerProvider(sdk.WithBatcher(spans), sdk.WithResource(name), sdk.WithRawSpanLimits(limits))
	return p, func() {
		ctx, cancel := context.WithTimeout(context.Background(), spansTime)
		defer cancel()
		if err := p.Shutdown(ctx); err != nil {
			errs.Handle(err)
		}
	}, nil
}

// spanClient is nil where nothing is to be exported.
func spanClient() (otlptrace.Client, error) {
	to := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
	switch kind := os.Getenv("OTEL_TRACES_EXPORTER"); {
	case strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || kind == "none" || kind == "" && to == "":
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
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL or OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=%q: want grpc or http/protobuf", protocol)
	}
}

// sdkErrors logs the errors of OpenTelemetry's SDK: each kind once a minute, for a busy server has many. It never tells
// what a variable of the environment says, or what a collector has answered, which may repeat what it was sent: both have
// secrets.
type sdkErrors struct {
	log *slog.Logger

	mu   sync.Mutex
	said map[string]time.Time
}

// logSDK makes the SDK log by log, and nowhere else. It is called before the SDK reads a variable.
func logSDK(log *slog.Logger) *sdkErrors {
	errs := &sdkErrors{log: log, said: make(map[string]time.Time)}
	otel.SetErrorHandler(errs)
	otel.SetLogger(logr.New(sdkLog{log}))
	return errs
}

// maxReason bounds the text of an error.
const maxReason = 300

// Handle implements otel.ErrorHandler.
func (e *sdkErrors) Handle(err error) {
	what, reason := "spans were not exported", OneLine(err)
	if errors.Is(err, context.DeadlineExceeded) || strings.HasPrefix(reason, "traces export: ") {
		reason, _, _ = strings.Cut(reason, "body: ")
	} else {
		what = "OpenTelemetry does not take a variable of the environment"
		reason, _, _ = strings.Cut(reason, ": ")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if said, ok := e.said[what]; ok && time.Since(said) < time.Minute {
		return
	}
	e.said[what] = time.Now()
	e.log.Warn(what, "error", strings.ToValidUTF8(reason[:min(len(reason), maxReason)], ""))
}

// sdkLog is the log of OpenTelemetry's SDK: from warnings on, without their values.
type sdkLog struct{ log *slog.Logger }

func (sdkLog) Init(logr.RuntimeInfo)                  {}
func (sdkLog) Enabled(level int) bool                 { return level <= 1 }
func (s sdkLog) Info(_ int, text string, _ ...any)    { s.log.Warn("OpenTelemetry: " + text) }
func (s sdkLog) Error(_ error, text string, _ ...any) { s.log.Warn("OpenTelemetry: " + text) }
func (s sdkLog) WithValues(...any) logr.LogSink       { return s }
func (s sdkLog) WithName(string) logr.LogSink         { return s }
