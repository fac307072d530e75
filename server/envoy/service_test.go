package envoy_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/coordgo/coord/server/envoy"
)

// dial serves the Service by gRPC, and gives a client of it.
func (k *kit) dial(t *testing.T) pb.RateLimitServiceClient {
	t.Helper()
	l := bufconn.Listen(64 << 10)
	s := grpc.NewServer()
	pb.RegisterRateLimitServiceServer(s, k)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	conn, err := grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return pb.NewRateLimitServiceClient(conn)
}

func TestGRPC(t *testing.T) {
	t.Parallel()
	client := start(t, "", "domain: d\ndescriptors: [{key: a, rate_limit: {unit: year, requests_per_unit: 1, name: n}}]\n").dial(t)
	const one = `{"domain":"d","descriptors":[{"entries":[{"key":"a"}]}]}`
	for i, want := range []string{"OK: OK 0/1", "OVER_LIMIT: OVER_LIMIT 0/1"} {
		r, err := client.ShouldRateLimit(t.Context(), request(t, one))
		if err != nil || !strings.HasPrefix(short(r), want) || r.Statuses[0].CurrentLimit.Name != "n" {
			t.Errorf("%d: %v, %v", i, r, err)
		}
	}
	if _, err := client.ShouldRateLimit(t.Context(), request(t, `{"domain":"d"}`)); status.Code(err) != codes.InvalidArgument {
		t.Errorf("no descriptors: %v", err)
	}
}

// A caller who may not take permits of a domain is refused, by gRPC and by HTTP.
func TestMay(t *testing.T) {
	t.Parallel()
	may := func(_ context.Context, prefix string) error {
		switch prefix {
		case "rls/a%2Fb/":
			return nil
		case "rls/b/":
			return errors.New("without a code")
		}
		return status.Error(codes.PermissionDenied, "not "+prefix)
	}
	s, err := envoy.New(open(t, "", "domain: a/b\n"), envoy.Options{May: may})
	if err != nil {
		t.Fatal(err)
	}
	for domain, want := range map[string]codes.Code{"a/b": codes.OK, "a": codes.PermissionDenied, "b": codes.PermissionDenied} {
		text := `{"domain":"` + domain + `","descriptors":[{}]}`
		if _, err := s.ShouldRateLimit(t.Context(), request(t, text)); status.Code(err) != want {
			t.Errorf("%s: %v", domain, err)
		}
		if code := post(t, s, text).Code; (code == http.StatusOK) != (want == codes.OK) || code != http.StatusOK && code != http.StatusForbidden {
			t.Errorf("%s: %d", domain, code)
		}
	}
}

func post(t *testing.T, h http.Handler, body string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/json", strings.NewReader(body)))
	return w
}

func TestJSON(t *testing.T) {
	t.Parallel()
	k := start(t, "", "domain: d\ndescriptors: [{key: a, rate_limit: {unit: year, requests_per_unit: 1}}]\n")
	const one = `{"domain":"d","descriptors":[{"entries":[{"key":"a"}]}]}`
	for _, test := range []struct {
		body string
		code int
		want string
	}{
		{one, 200, `"overallCode":"OK"`},
		{one, 429, `"overallCode":"OVER_LIMIT"`},
		{`{"domain":"d"}`, 400, "no descriptors"},
		{`{"domian":"d"}`, 400, "want a RateLimitRequest in JSON"},
		{strings.Repeat(" ", 64<<10) + one, 413, "more than 65536 bytes"},
	} {
		w := post(t, k, test.body)
		if text := strings.ReplaceAll(w.Body.String(), " ", ""); w.Code != test.code || !strings.Contains(text, strings.ReplaceAll(test.want, " ", "")) {
			t.Errorf("%.60s: %d %s: want %d %s", test.body, w.Code, w.Body, test.code, test.want)
		}
	}
	w := httptest.NewRecorder()
	k.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/json", broken{}))
	if w.Code != http.StatusBadRequest {
		t.Errorf("a body that breaks off: %d", w.Code)
	}
	away := start(t, "url: away://", "domain: d\ndescriptors: [{key: a, rate_limit: {unit: year, requests_per_unit: 1}}]\n")
	if w := post(t, away, one); w.Code != http.StatusServiceUnavailable {
		t.Errorf("without the store: %d", w.Code)
	}
}

// broken is a body that breaks off.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("broken") }

// Nothing that a request says ends the process.
func FuzzJSON(f *testing.F) {
	for _, text := range []string{
		`{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"a"}],"hitsAddend":"5"}],"hitsAddend":4294967295}`,
		`{"domain":"d","descriptors":[{"limit":{"unit":99}}]}`, `{"domain":"d","descriptors":[null]}`, `{"domain":"\u0000","descriptors":[{"entries":[{"key":"\u0000"}]}]}`,
		`{"domain":"e","descriptors":[{"entries":[{"key":"bucket"}],"limit":{"unit":"YEAR","requestsPerUnit":4294967295}}]}`,
	} {
		f.Add(text)
	}
	k := start(f, "", users, strings.Replace(exact, "domain: d", "domain: e", 1))
	f.Fuzz(func(t *testing.T, text string) {
		if w := post(t, k, text); w.Code != 200 && w.Code != 429 && w.Code != 400 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}
