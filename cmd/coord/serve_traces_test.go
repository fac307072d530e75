package main_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// collector takes spans by OTLP, by HTTP and by gRPC.
type collector struct {
	collectorpb.UnimplementedTraceServiceServer
	names chan string // of the services and of their spans
}

func (c *collector) Export(_ context.Context, q *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	for _, of := range q.ResourceSpans {
		for _, a := range of.Resource.Attributes {
			if a.Key == "service.name" {
				c.names <- a.Value.GetStringValue()
			}
		}
		for _, scope := range of.ScopeSpans {
			for _, span := range scope.Spans {
				c.names <- span.Name
			}
		}
	}
	return new(collectorpb.ExportTraceServiceResponse), nil
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	q := new(collectorpb.ExportTraceServiceRequest)
	if err == nil {
		err = proto.Unmarshal(text, q)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, "want spans", http.StatusBadRequest)
		return
	}
	_, _ = c.Export(r.Context(), q)
}

// Spans go where OpenTelemetry's variables say, the last ones at the end. Without them, or where nobody takes them, coord
// serves as well.
func TestServeTraces(t *testing.T) {
	t.Parallel()
	c := &collector{names: make(chan string, 100)}
	overHTTP := httptest.NewServer(c)
	t.Cleanup(overHTTP.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	overGRPC := grpc.NewServer()
	collectorpb.RegisterTraceServiceServer(overGRPC, c)
	go overGRPC.Serve(l)
	t.Cleanup(overGRPC.Stop)
	for _, tc := range []struct {
		env  []string
		want bool
	}{
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + overHTTP.URL, "OTEL_SERVICE_NAME=limits"}, true},
		{[]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://" + l.Addr().String(), "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_SERVICE_NAME=limits"}, true},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + overHTTP.URL, "OTEL_TRACES_EXPORTER=none"}, false},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + overHTTP.URL, "OTEL_SDK_DISABLED=true"}, false},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1"}, false},
		{nil, false},
	} {
		u := newUser(t, "memory://")
		u.env = append(u.env, tc.env...)
		s := u.serve("serve: {ad_hoc_limits: true}")
		if status, answer := s.post("/v1/limits/take", `{"key":"k","rate":"5/h"}`); status != http.StatusOK {
			t.Fatalf("%q: %d %v", tc.env, status, answer)
		}
		s.signal(syscall.SIGTERM)
		if code := exitCode(t, s.cmd.Wait()); code != 0 {
			t.Errorf("%q: exit status %d; stderr: %s", tc.env, code, s.stderr)
		}
		var got []string
		for len(c.names) > 0 {
			got = append(got, <-c.names)
		}
		if want := len(got) == 2 && got[0] == "limits" && got[1] == "POST /v1/limits/take"; want != tc.want || !want && got != nil {
			t.Errorf("%q: %q; stderr: %s", tc.env, got, s.stderr)
		}
	}
}

// A value that coord does not know is a mistake of the configuration.
func TestServeTracesRefused(t *testing.T) {
	t.Parallel()
	for _, env := range []string{"OTEL_TRACES_EXPORTER=console", "OTEL_EXPORTER_OTLP_PROTOCOL=http/json"} {
		u := newUser(t, "memory://")
		u.env = append(u.env, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", env)
		r := u.spawn(u.command("serve"))
		if code := exitCode(t, r.cmd.Wait()); code != 78 {
			t.Errorf("%s: exit status %d; stderr: %s", env, code, r.stderr)
		}
	}
}

// A variable with a mistake is told without its value, in a line of coord's log.
func TestServeTracesTellsNoValue(t *testing.T) {
	t.Parallel()
	for _, env := range []string{
		"OTEL_EXPORTER_OTLP_HEADERS=authorization Bearer hidden", "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%ZZhidden",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://user:hidden@127.0.0.1:1 x", "OTEL_RESOURCE_ATTRIBUTES=hidden",
	} {
		u := newUser(t, "memory://")
		u.env = append(u.env, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", env)
		s := u.serve("serve: {ad_hoc_limits: true}")
		s.post("/v1/limits/take", `{"key":"k","rate":"5/h"}`)
		s.signal(syscall.SIGTERM)
		_ = s.cmd.Wait()
		log := s.stderr.String()
		if strings.Contains(log, "hidden") || !strings.Contains(log, "OpenTelemetry") {
			t.Errorf("%s: %s", env, log)
		}
		for line := range strings.Lines(log) {
			if !strings.HasPrefix(line, "time=") {
				t.Errorf("%s: not a line of coord's log: %s", env, line)
			}
		}
	}
}
