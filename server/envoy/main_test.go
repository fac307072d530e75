package envoy_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"

	_ "github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/server/envoy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kit is a Service in memory, and what it measured.
type kit struct {
	*envoy.Service
	client *config.Client
	meter  *meter
}

// start makes a Service of files. more are lines of coord.yaml.
func start(t testing.TB, more string, files ...string) *kit {
	t.Helper()
	client := open(t, more, files...)
	k := &kit{client: client, meter: new(meter)}
	var err error
	if k.Service, err = envoy.New(client, envoy.Options{Meter: provider{meter: k.meter}}); err != nil {
		t.Fatal(err)
	}
	return k
}

// open makes the client of a Service. The names of the files are in the order of files.
func open(t testing.TB, more string, files ...string) *config.Client {
	t.Helper()
	dir := t.TempDir()
	for i, text := range files {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%02d.yaml", i)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(more, "envoy:") {
		more += "\nserve: {envoy: {files: [DIR]}}"
	}
	if !strings.Contains(more, "url:") {
		more += "\nurl: memory://"
	}
	cfg, err := config.Parse("coord.yaml", []byte(strings.ReplaceAll(more, "DIR", dir)))
	if err != nil {
		t.Fatal(err)
	}
	client, err := cfg.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// request makes a request of a text in JSON.
func request(t *testing.T, text string) *pb.RateLimitRequest {
	t.Helper()
	q := new(pb.RateLimitRequest)
	if err := protojson.Unmarshal([]byte(text), q); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return q
}

// ask gives the answer in short: "OK: OK 9/10 60s, OVER_LIMIT 0/1 1s".
func (k *kit) ask(t *testing.T, text string) string {
	t.Helper()
	r, err := k.ShouldRateLimit(t.Context(), request(t, text))
	if err != nil {
		return err.Error()
	}
	return short(r)
}

// hit asks for one descriptor of domain d with those entries: "user=ann path=/a".
func (k *kit) hit(t *testing.T, entries string) string {
	t.Helper()
	r, err := k.ShouldRateLimit(t.Context(), &pb.RateLimitRequest{Domain: "d", Descriptors: []*common.RateLimitDescriptor{descriptor(entries)}})
	if err != nil {
		t.Fatal(err)
	}
	return short(r)
}

func descriptor(entries string) *common.RateLimitDescriptor {
	d := new(common.RateLimitDescriptor)
	for e := range strings.FieldsSeq(entries) {
		key, value, _ := strings.Cut(e, "=")
		d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	return d
}

func short(r *pb.RateLimitResponse) string {
	parts := make([]string, len(r.Statuses))
	for i, s := range r.Statuses {
		parts[i] = fmt.Sprintf("%v %d/%d %ds", s.Code, s.LimitRemaining, s.CurrentLimit.GetRequestsPerUnit(), s.DurationUntilReset.GetSeconds())
		if s.CurrentLimit == nil {
			parts[i] = fmt.Sprintf("%v %d", s.Code, s.LimitRemaining)
		}
	}
	return fmt.Sprintf("%v: %s", r.OverallCode, strings.Join(parts, ", "))
}

// meter remembers counters: "rate_limit.total_hits edge.user_ann".
type meter struct {
	noop.Meter
	mu   sync.Mutex
	seen map[string]int64
}

// provider gives the meter.
type provider struct {
	noop.MeterProvider
	*meter
}

func (p provider) Meter(string, ...metric.MeterOption) metric.Meter { return p.meter }

func (m *meter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return &counter{meter: m, name: strings.TrimPrefix(name, "ratelimit.service.")}, nil
}

type counter struct {
	noop.Int64Counter
	meter *meter
	name  string
}

func (c *counter) Add(_ context.Context, n int64, o ...metric.AddOption) {
	set := metric.NewAddConfig(o).Attributes()
	levels := make([]string, set.Len())
	for i, a := range set.ToSlice() { // "domain" comes first, then "key1" and so on
		levels[i] = a.Value.AsString()
	}
	if len(levels) == 1 && strings.HasPrefix(c.name, "rate_limit.") && c.name != "rate_limit.domain_not_found" {
		levels = append(levels, "") // of an override without entries
	}
	c.meter.mu.Lock()
	defer c.meter.mu.Unlock()
	if c.meter.seen == nil {
		c.meter.seen = make(map[string]int64)
	}
	c.meter.seen[strings.TrimSpace(c.name+" "+strings.Join(levels, "."))] += n
}
