package main

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"strconv"
	"strings"

	gostats "github.com/lyft/gostats"
	"google.golang.org/grpc/health"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/envoyproxy/ratelimit/src/config"
	"github.com/envoyproxy/ratelimit/src/provider"
	"github.com/envoyproxy/ratelimit/src/redis"
	"github.com/envoyproxy/ratelimit/src/server"
	ratelimit "github.com/envoyproxy/ratelimit/src/service"
	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/envoyproxy/ratelimit/src/stats"
	"github.com/envoyproxy/ratelimit/src/utils"
)

// clock is set by the requests.
type clock struct{ ms int64 }

func (c *clock) UnixNow() int64 { return c.ms / 1000 }

// sink sums the counters up.
type sink map[string]uint64

func (s sink) FlushCounter(name string, v uint64) { s[name] += v }
func (s sink) FlushGauge(string, uint64)          {}
func (s sink) FlushTimer(string, float64)         {}

// event and prov hand the service its configuration.
type event struct{ cfg config.RateLimitConfig }

func (e event) GetConfig() (config.RateLimitConfig, any) { return e.cfg, nil }

// end is the event by which a service that is done with ends its goroutine, which otherwise keeps the whole of it.
type end struct{}

func (end) GetConfig() (config.RateLimitConfig, any) { runtime.Goexit(); return nil, nil }

type prov struct {
	ch chan provider.ConfigUpdateEvent
}

func (p prov) ConfigUpdateEvent() <-chan provider.ConfigUpdateEvent { return p.ch }
func (p prov) Stop()                                                {}

// load reads files as the service does.
func load(files []string, merge bool, m stats.Manager) (cfg config.RateLimitConfig, problem string) {
	defer func() {
		if e := recover(); e != nil {
			problem = fmt.Sprint(e)
		}
	}()
	var all []config.RateLimitConfigToLoad
	for i, f := range files {
		name := fmt.Sprintf("f%d", i)
		all = append(all, config.RateLimitConfigToLoad{Name: name, ConfigYaml: config.ConfigFileContentToYaml(name, f)})
	}
	return config.NewRateLimitConfigLoaderImpl().Load(all, m, merge), ""
}

func chance(p float64) bool { return r.Float64() < p }

// run makes a configuration and asks it.
func run(i int) *scenario {
	s := &scenario{Merge: chance(0.3), Shadow: chance(0.05), Quota: chance(0.07), Headers: chance(0.5), Metadata: chance(0.3)}
	g := &gen{metadata: s.Metadata && !january}
	mutated := chance(0.45)
	g.files(s, mutated)
	for k, v := range map[string]bool{"SHADOW_MODE": s.Shadow, "QUOTA_MODE": s.Quota, "LIMIT_RESPONSE_HEADERS_ENABLED": s.Headers, "RESPONSE_DYNAMIC_METADATA": s.Metadata} {
		os.Setenv(k, strconv.FormatBool(v))
	}
	flushed := sink{}
	store := gostats.NewStore(flushed, false)
	m := stats.NewStatManager(store, settings.NewSettings())
	cfg, problem := load(s.Files, s.Merge, m)
	if s.Refused = problem; problem != "" {
		return s
	}
	if mutated && chance(0.7) {
		return s // accepted: that is all
	}
	shadowStats := stats.NewStatManager(gostats.NewStore(gostats.NewNullSink(), false), settings.NewSettings())
	g.cfg, _ = load(s.Files, s.Merge, shadowStats) // without the statistics of the one that answers
	g.ask(s, i, cfg, m)
	store.Flush()
	s.Stats = map[string]uint64{}
	for k, v := range flushed {
		if strings.Contains(k, ".rate_limit.") && v > 0 {
			s.Stats[strings.TrimPrefix(k, "ratelimit.service.rate_limit.")] = v
		}
	}
	return s
}

// ask makes the service of configuration i, and some requests.
func (g *gen) ask(s *scenario, i int, cfg config.RateLimitConfig, m stats.Manager) {
	c := &clock{ms: 1790000000_000 + r.Int63n(400*86400_000)}
	prefix := fmt.Sprintf("%d-%d-", os.Getpid(), i)
	cache := redis.NewFixedRateLimitCacheImpl(client, nil, c, rand.New(utils.NewLockedSource(1)), 1_000_000, nil, 0.8, prefix, m, false)
	p := prov{make(chan provider.ConfigUpdateEvent, 1)}
	p.ch <- event{cfg}
	defer func() { p.ch <- end{} }()
	svc := ratelimit.NewService(cache, p, m, server.NewHealthChecker(health.NewServer(), "x", false), c, s.Shadow, false, false)
	seen := map[string]string{}
	steps := 20 + r.Intn(50)
	for j := 0; j < steps; j++ {
		g.advance(c)
		q := g.request()
		for !unambiguous(q, c.UnixNow(), g, seen) {
			q = g.request()
		}
		st := step{T: c.ms}
		st.Request, _ = protojson.Marshal(q)
		resp, err := svc.ShouldRateLimit(context.Background(), q)
		if err != nil {
			st.Error = err.Error()
		} else {
			st.Response = answer(resp)
		}
		s.Steps = append(s.Steps, st)
	}
}
