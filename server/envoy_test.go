package server

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

// envoyFiles writes the file of a limit of n a year, and gives its directory.
func envoyFiles(t *testing.T, n string) string {
	t.Helper()
	dir := t.TempDir()
	writeEnvoy(t, dir, n)
	return dir
}

func writeEnvoy(t *testing.T, dir, n string) {
	t.Helper()
	text := "domain: edge\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: " + n + "}}]\n"
	if err := os.WriteFile(filepath.Join(dir, "edge.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const askEnvoy = `{"domain":"edge","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}`

// Envoy's requests are those of a caller, who needs the right take on the domain.
func TestEnvoy(t *testing.T) {
	k := start(t, "serve:\n  envoy: {files: ["+envoyFiles(t, "1")+"]}\n  callers:\n"+
		"  - {name: edge, token: 0123456789abcdef, allow: [{prefix: rls/edge/, rights: [take]}]}\n"+
		"  - {name: other, token: fedcba9876543210, allow: [{prefix: rls/edge, rights: [read]}]}\n")
	as := func(token string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	}
	for _, want := range []string{"OK", "OVER_LIMIT"} {
		a := k.postUnchecked(t.Context(), "/json", askEnvoy, as("0123456789abcdef"))
		if a.body["overallCode"] != want || (a.status == http.StatusOK) != (want == "OK") {
			t.Errorf("%d %v: want %s", a.status, a.body, want)
		}
	}
	for token, want := range map[string]int{"fedcba9876543210": http.StatusForbidden, "nobody's": http.StatusUnauthorized} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/json", strings.NewReader(askEnvoy))
		as(token)(r)
		w := httptest.NewRecorder()
		if k.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s: %d %s: want %d", token, w.Code, w.Body, want)
		}
	}
}

// By gRPC it is a service like the others: with the same callers.
func TestEnvoyGRPC(t *testing.T) {
	k := start(t, "serve:\n  envoy: {files: ["+envoyFiles(t, "1")+"]}\n  callers:\n"+
		"  - {name: edge, token: 0123456789abcdef, allow: [{prefix: rls/edge/, rights: [take]}]}\n"+
		"  - {name: other, token: fedcba9876543210, allow: [{prefix: rls/edge, rights: [read]}]}\n")
	w := k.wire()
	as := func(token string) ratelimitpb.RateLimitServiceClient {
		return ratelimitpb.NewRateLimitServiceClient(w.dial(token))
	}
	q := new(ratelimitpb.RateLimitRequest)
	if err := protojson.Unmarshal([]byte(askEnvoy), q); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"OK", "OVER_LIMIT"} {
		r, err := as("0123456789abcdef").ShouldRateLimit(t.Context(), q)
		if err != nil || r.OverallCode.String() != want {
			t.Errorf("%v, %v: want %s", r, err, want)
		}
	}
	if h, err := w.dial("").health.Check(t.Context(), &healthpb.HealthCheckRequest{Service: "ratelimit"}); err != nil || h.Status != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", h, err)
	}
	for token, want := range map[string]codes.Code{"fedcba9876543210": codes.PermissionDenied, "nobody's": codes.Unauthenticated} {
		if _, err := as(token).ShouldRateLimit(t.Context(), q); status.Code(err) != want {
			t.Errorf("%s: %v: want %v", token, err, want)
		}
	}
}

// A caller with too many requests under way is not told that it is over its limit.
func TestEnvoyBusy(t *testing.T) {
	k := start(t, "serve:\n  max_requests: 1\n  envoy: {files: ["+envoyFiles(t, "1")+"]}\n")
	k.callers.everybody.requests.Add(1)
	k.postUnchecked(t.Context(), "/json", askEnvoy).want(t, http.StatusServiceUnavailable, "too_many_requests")
	k.callers.everybody.requests.Add(-1)
	if a := k.postUnchecked(t.Context(), "/json", askEnvoy); a.status != http.StatusOK {
		t.Errorf("%d %v", a.status, a.body)
	}
}

// A Server does not begin with files that have a mistake.
func TestEnvoyRefused(t *testing.T) {
	client := start(t, "serve: {grpc_listen: '127.0.0.1:0', envoy: {files: ["+envoyFiles(t, "1")+"]}}").client
	writeEnvoy(t, client.Config().Serve.Envoy.Files[0], "many")
	if _, err := New(t.Context(), client, Options{Log: quiet}); err == nil || !strings.Contains(err.Error(), "serve.envoy: ") || !strings.Contains(err.Error(), "edge.yaml:2: requests_per_unit: want a whole number") {
		t.Errorf("New: %v", err)
	}
}

// While it serves, changed files are taken, and those with a mistake are not.
func TestEnvoyReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := envoyFiles(t, "1")
		k := start(t, "serve: {envoy: {files: ["+dir+"]}}")
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- k.Serve(ctx, &pipes{make(chan net.Conn), make(chan struct{})}) }()
		for _, step := range []struct{ text, now string }{{"5", "5 a year"}, {"many", "5 a year"}, {"6", "6 a year"}} {
			writeEnvoy(t, dir, step.text)
			time.Sleep(3 * envoyEvery)
			if got := k.envoy.Rules().String(); !strings.Contains(got, step.now) {
				t.Errorf("%s: %s", step.text, got)
			}
		}
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
