package server

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"

	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/server/envoy"
)

// Options are what a Server has besides its configuration.
type Options struct {
	// Log gets a line for each request, and panics of handlers; nil is slog.Default.
	Log *slog.Logger
	// Meter is told of requests and holds; nil is nobody.
	Meter metric.MeterProvider
	// Tracer makes a span of each request of a caller that is known, also of those by gRPC; nil: there are none. Spans of
	// locks and limits in it are those of package otelcoord.
	Tracer trace.TracerProvider
	// Metrics answers GET /metrics; nil: there is no such path.
	Metrics http.Handler
	// Decisions are of the client's limits, for the page; nil: the page does not show how many are denied.
	Decisions *Decisions
}

// Server gives locks and limits to programs in other languages, by HTTP with JSON and by gRPC. Make it with [New]. It
// is a handler for the paths of its openapi.json; [Server.Serve] also listens. It is safe for concurrent use.
//
// End it by [Server.Drain] before you close its client: Close gives holds back while remote holders still
// believe in them.
type Server struct {
	client  *config.Client
	cfg     config.Serve
	log     *slog.Logger
	meters  *meters
	tracer  trace.Tracer // nil: there are no spans
	callers *callers
	mux     *http.ServeMux
	openapi []byte
	secure  *tls.Config // nil: plain HTTP
	grpc    *grpc.Server
	envoy   *envoy.Service // nil: there are no files of it

	// reloading is held from the look at the configuration and at tokens until they are taken, so that older ones never
	// replace newer ones.
	reloading sync.Mutex

	pinging  sync.Mutex // guards what is known of the store
	pinged   time.Time
	pingErr  error
	draining atomic.Bool
	ending   context.Context // ends when draining begins
	end      context.CancelFunc

	mu       sync.Mutex
	live     int // holds, and attempts at them
	idle     chan struct{}
	holds    map[string]*hold // by id, with those that have ended not long ago
	attempts map[requestKey]*attempt
	reserved map[string]*reservation
}

// callTime bounds the calls on the store that wait for nobody.
const callTime = 10 * time.Second

// New makes a Server on the client, as the section serve of its configuration says. Tokens are looked up within ctx.
func New(ctx context.Context, client *config.Client, o Options) (*Server, error) {
	cfg := client.Config()
	s := &Server{
		client: client, cfg: cfg.Serve.WithDefaults(), log: o.Log, mux: http.NewServeMux(), idle: make(chan struct{}),
		holds: make(map[string]*hold), attempts: make(map[requestKey]*attempt), reserved: make(map[string]*reservation),
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	var err error
	if s.callers, err = newCallers(ctx, cfg); err != nil {
		return nil, err
	}
	if s.meters, err = newMeters(o.Meter); err != nil {
		return nil, err
	}
	if o.Tracer != nil {
		s.tracer = o.Tracer.Tracer("github.com/coordgo/coord/server")
	}
	if s.secure, err = newTLS(s.cfg, s.log); err != nil {
		return nil, err
	}
	s.ending, s.end = context.WithCancel(context.Background())
	s.routes(o.Metrics, o.Decisions)
	s.grpc = s.newGRPC()
	if err := s.newEnvoy(o); err != nil {
		s.grpc.Stop()
		return nil, err
	}
	return s, nil
}

// routes makes the paths.
func (s *Server) routes(metrics http.Handler, d *Decisions) {
	all := operations()
	for _, op := range all {
		s.mux.HandleFunc("POST "+op.path, func(w http.ResponseWriter, r *http.Request) {
			answer, err := op.serve(s, w, r)
			if err != nil {
				fail(w, err)
				return
			}
			reply(w, http.StatusOK, answer)
		})
	}
	s.mux.HandleFunc("POST /v1/locks/hold", s.hold)
	s.mux.HandleFunc("GET /v1/locks/watch", s.watch)
	s.openapi = describe(all)
	s.mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(s.openapi)
	})
	s.mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, struct{}{}) })
	s.mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := s.ready(r.Context()); err != nil {
			fail(w, err)
			return
		}
		reply(w, http.StatusOK, struct{}{})
	})
	if metrics != nil {
		s.mux.Handle("GET /metrics", metrics)
	}
	s.servePage(d)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fail(w, errNoPath) })
}

// Reload takes the callers of the client's configuration, with their tokens and rights, from then on: call it when
// [config.Client.Reload] has taken a file. A caller that stays keeps its holds. One that is gone renews and releases
// nothing more. Tokens are looked up within ctx; after an error the callers are those from before.
func (s *Server) Reload(ctx context.Context) error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	cfg := s.client.Config()
	tokens, err := cfg.Tokens(ctx)
	if err != nil {
		return err
	}
	return s.callers.take(cfg, tokens)
}

// Drain ends the Server without ending what remote holders may believe. It grants no new holds and renews none,
// and returns when each hold was released or its time is over, or with an error when ctx ends. In that case do not
// close the client: let the process end, and the holds end with their leases.
func (s *Server) Drain(ctx context.Context) error {
	s.mu.Lock()
	s.draining.Store(true)
	s.changed()
	s.mu.Unlock()
	s.end()
	select {
	case <-s.idle:
		return nil
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		return fmt.Errorf("%d holds are left to their leases: %w", s.live, context.Cause(ctx))
	}
}

// changed notices that nothing is held any more. It is called with s.mu locked.
func (s *Server) changed() {
	if s.draining.Load() && s.live == 0 {
		select {
		case <-s.idle:
		default:
			close(s.idle)
		}
	}
}

// untilDraining is a context that ends with ctx, and when the server begins to drain.
func (s *Server) untilDraining(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ending, cancel)
	return ctx, func() { stop(); cancel() }
}

// ready reports whether the store answers and new holds are granted. Everybody may ask: the store is asked once a
// second, and strangers are told of a code alone.
func (s *Server) ready(ctx context.Context) error {
	if s.draining.Load() {
		return errDraining
	}
	s.pinging.Lock()
	defer s.pinging.Unlock()
	if s.pinged.IsZero() || time.Since(s.pinged) >= time.Second {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime/2)
		defer cancel()
		err := s.client.Ping(ctx)
		if s.pinged, s.pingErr = time.Now(), nil; err != nil {
			s.log.Warn("the store does not answer", "error", err)
			status, p := problemOf(err)
			s.pingErr = &failure{status, p.Error.Code, "the store does not answer: the log says more"}
		}
	}
	return s.pingErr
}

// newID is an id that nobody can guess.
func (s *Server) newID() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // it never fails
	return hex.EncodeToString(random[:])
}
