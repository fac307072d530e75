package stores

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/internal/testserver"
	"github.com/coordgo/coord/server"
	"github.com/coordgo/coord/server/coordpb"
)

// BenchmarkServe measures a lock that is taken and released, and a take of one permit, by a call in Go, by HTTP and by
// gRPC, and beside them a request to a server that does nothing. Each caller has a key of its own. cpu-ns/op is the
// processor time of clients and server together, which hardly depends on what else the machine does.
func BenchmarkServe(b *testing.B) {
	for _, store := range []string{"memory", "redis"} {
		url := "memory://"
		if store == "redis" {
			url = "redis://" + testserver.Redis(b).Addr
		}
		w := newWays(b, url)
		for _, way := range []struct {
			name string
			do   func(ctx context.Context, key string) error
		}{
			{"empty/http", w.emptyHTTP},
			{"empty/grpc", w.emptyGRPC},
			{"lock/go", w.lockGo},
			{"lock/http", w.lockHTTP},
			{"lock/grpc", w.lockGRPC},
			{"take/go", w.takeGo},
			{"take/http", w.takeHTTP},
			{"take/grpc", w.takeGRPC},
		} {
			for _, callers := range []int{1, 64} {
				b.Run(fmt.Sprintf("%s/%s/%d", store, way.name, callers), func(b *testing.B) { callBy(b, callers, way.do) })
			}
		}
	}
}

// callBy calls do by so many callers at a time.
func callBy(b *testing.B, callers int, do func(ctx context.Context, key string) error) {
	var next atomic.Int64
	began := processorTime(b)
	defer func() { b.ReportMetric(float64((processorTime(b)-began).Nanoseconds())/float64(b.N), "cpu-ns/op") }()
	b.SetParallelism(max(callers/runtime.GOMAXPROCS(0), 1))
	one := func(more func() bool) {
		key := fmt.Sprintf("caller/%d", next.Add(1))
		for more() {
			if err := do(b.Context(), key); err != nil {
				b.Error(err)
				return
			}
		}
	}
	if callers == 1 {
		one(b.Loop)
		return
	}
	b.RunParallel(func(pb *testing.PB) { one(pb.Next) })
}

// processorTime is what this process has used of it.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	check(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// ways are clients of a server, and of one that does nothing.
type ways struct {
	client         *config.Client
	limit          coord.Limit
	http           *http.Client
	url, emptyURL  string
	locks          coordpb.LocksClient
	limits, nobody coordpb.LimitsClient
}

const rate = "1000000000/1s"

func newWays(b *testing.B, url string) *ways {
	b.Helper()
	limit, err := coord.ParseLimit(rate)
	check(b, err)
	cfg, err := config.Parse("coord.yaml", []byte("url: "+url+"\nserve: {listen: '127.0.0.1:0', grpc_listen: '127.0.0.1:0', ad_hoc_limits: true}"))
	check(b, err)
	client, err := cfg.Open(b.Context())
	check(b, err)
	b.Cleanup(func() { _ = client.Close() })
	w := &ways{client: client, limit: limit, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	b.Cleanup(w.http.CloseIdleConnections)

	s, err := server.New(b.Context(), client, server.Options{Log: slog.New(slog.DiscardHandler)})
	check(b, err)
	l, err := s.Listen(b.Context())
	check(b, err)
	g, err := s.ListenGRPC(b.Context())
	check(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- s.Serve(ctx, l, g) }()
	b.Cleanup(func() { cancel(); check(b, <-served) })
	cc := dial(b, g.Addr())
	w.url, w.locks, w.limits = "http://"+l.Addr().String(), coordpb.NewLocksClient(cc), coordpb.NewLimitsClient(cc)
	w.empty(b)
	return w
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func dial(b *testing.B, addr net.Addr) *grpc.ClientConn {
	b.Helper()
	cc, err := grpc.NewClient(addr.String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(b, err)
	b.Cleanup(func() { _ = cc.Close() })
	return cc
}

// nothing answers at once.
type nothing struct {
	coordpb.UnimplementedLimitsServer
}

func (nothing) Cancel(context.Context, *coordpb.CancelRequest) (*coordpb.CancelAnswer, error) {
	return new(coordpb.CancelAnswer), nil
}

// empty starts servers that do nothing.
func (w *ways) empty(b *testing.B) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(b, err)
	h := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}\n") })}
	go func() { _ = h.Serve(l) }()
	b.Cleanup(func() { _ = h.Close() })
	g, err := net.Listen("tcp", "127.0.0.1:0")
	check(b, err)
	s := grpc.NewServer()
	coordpb.RegisterLimitsServer(s, nothing{})
	go func() { _ = s.Serve(g) }()
	b.Cleanup(s.Stop)
	w.emptyURL, w.nobody = "http://"+l.Addr().String(), coordpb.NewLimitsClient(dial(b, g.Addr()))
}

// post makes a request, and reads its answer.
func (w *ways) post(ctx context.Context, url string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	got, err := w.http.Do(r)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	text, err = io.ReadAll(got.Body)
	if err != nil {
		return err
	}
	if got.StatusCode != http.StatusOK {
		return fmt.Errorf("%d %s", got.StatusCode, text)
	}
	return json.Unmarshal(text, answer)
}

func (w *ways) emptyHTTP(ctx context.Context, _ string) error {
	return w.post(ctx, w.emptyURL, struct{}{}, &struct{}{})
}

func (w *ways) emptyGRPC(ctx context.Context, _ string) error {
	_, err := w.nobody.Cancel(ctx, new(coordpb.CancelRequest))
	return err
}

func (w *ways) lockGo(ctx context.Context, key string) error {
	l, err := w.client.TryLock(ctx, key)
	if err != nil {
		return err
	}
	return l.Unlock(ctx)
}

func (w *ways) lockHTTP(ctx context.Context, key string) error {
	var held, released struct{ ID string }
	if err := w.post(ctx, w.url+"/v1/locks/acquire", map[string]string{"key": key}, &held); err != nil {
		return err
	}
	return w.post(ctx, w.url+"/v1/locks/release", map[string]string{"id": held.ID}, &released)
}

func (w *ways) lockGRPC(ctx context.Context, key string) error {
	held, err := w.locks.Acquire(ctx, &coordpb.AcquireRequest{Key: key})
	if err != nil {
		return err
	}
	_, err = w.locks.Release(ctx, &coordpb.ReleaseRequest{Id: held.GetId()})
	return err
}

func (w *ways) takeGo(ctx context.Context, key string) error {
	_, err := w.client.Allow(ctx, key, w.limit)
	return err
}

func (w *ways) takeHTTP(ctx context.Context, key string) error {
	var answer struct{ Allowed bool }
	return w.post(ctx, w.url+"/v1/limits/take", map[string]string{"key": key, "rate": rate}, &answer)
}

func (w *ways) takeGRPC(ctx context.Context, key string) error {
	_, err := w.limits.Take(ctx, &coordpb.TakeRequest{Demands: []*coordpb.Demand{{Account: &coordpb.Account{Key: key, Rate: rate}}}})
	return err
}
