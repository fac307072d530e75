package cli

import (
	"cmp"
	"context"
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
func newTraces(ctx context.Context, log *slog.Logger) (_ trace.TracerProvider, end func(), err error) {
	client, err := spanClient()
	if client == nil || err != nil {
		return nil, func() {}, err
	}
	lost := &lostSpans{log: log}
	otel.SetErrorHandler(lost)
	otel.SetLogger(logr.New(sdkLog{log}))
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
			lost.Handle(err)
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
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL=%q: want grpc or http/protobuf", protocol)
	}
}

// lostSpans logs why spans were not exported: once a minute, for a busy server has many.
type lostSpans struct {
	log *slog.Logger

	mu    sync.Mutex
	said  time.Time
	count int
}

// maxReason bounds the text of an error.
const maxReason = 300

// Handle implements otel.ErrorHandler. What a collector has answered is not logged: a proxy may repeat what it was sent,
// and a header of that is a secret.
func (l *lostSpans) Handle(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	if !l.said.IsZero() && time.Since(l.said) < time.Minute {
		return
	}
	reason, _, _ := strings.Cut(OneLine(err), "body: ")
	l.log.Warn("spans were not exported", "error", reason[:min(len(reason), maxReason)], "failures", l.count)
	l.said, l.count = time.Now(), 0
}

// sdkLog is the log of OpenTelemetry's SDK: what it says of its variables, without their values, which may be secret.
type sdkLog struct{ log *slog.Logger }

func (sdkLog) Init(logr.RuntimeInfo)               {}
func (sdkLog) Enabled(level int) bool              { return level <= 1 } // from warnings on
func (s sdkLog) Info(_ int, text string, _ ...any) { s.log.Warn("OpenTelemetry: " + text) }
func (s sdkLog) Error(_ error, text string, _ ...any) {
	s.log.Warn("OpenTelemetry: " + text)
}
func (s sdkLog) WithValues(...any) logr.LogSink { return s }
func (s sdkLog) WithName(string) logr.LogSink   { return s }
