// Command record asks envoyproxy/ratelimit for its answers to random requests of random configurations, on a clock that
// it sets. It made recorded.gz:
//
//	git clone https://github.com/envoyproxy/ratelimit && cd ratelimit && git checkout f2fb157
//	mkdir src/record && cp …/server/envoy/testdata/record/main.go src/record
//	go run ./src/record 8 220 127.0.0.1:6379 recorded.gz
//
// The arguments are a seed, how many configurations, the address of an empty Redis, and the file to write.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	gostats "github.com/lyft/gostats"
	logger "github.com/sirupsen/logrus"
	"google.golang.org/grpc/health"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/envoyproxy/ratelimit/src/config"
	"github.com/envoyproxy/ratelimit/src/provider"
	"github.com/envoyproxy/ratelimit/src/redis"
	"github.com/envoyproxy/ratelimit/src/server"
	ratelimit "github.com/envoyproxy/ratelimit/src/service"
	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/envoyproxy/ratelimit/src/stats"
	"github.com/envoyproxy/ratelimit/src/utils"
)

// step is a request at a time, in Unix milliseconds, with its answer or its error.
type step struct {
	T        int64           `json:"t"`
	Request  json.RawMessage `json:"q"`
	Response json.RawMessage `json:"r,omitempty"`
	Error    string          `json:"e,omitempty"`
}

// scenario is a configuration: why it was refused, or what it answered and measured.
type scenario struct {
	Files    []string          `json:"files"`
	Merge    bool              `json:"merge,omitempty"`
	Shadow   bool              `json:"shadow,omitempty"`
	Quota    bool              `json:"quota,omitempty"`
	Headers  bool              `json:"headers,omitempty"`
	Metadata bool              `json:"metadata,omitempty"`
	Refused  string            `json:"refused,omitempty"`
	Steps    []step            `json:"steps,omitempty"`
	Stats    map[string]uint64 `json:"stats,omitempty"`
}

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

type prov struct{ ch chan provider.ConfigUpdateEvent }

func (p prov) ConfigUpdateEvent() <-chan provider.ConfigUpdateEvent { return p.ch }
func (p prov) Stop()                                                {}

var (
	r      *rand.Rand
	client redis.Client
)

func main() {
	if len(os.Args) != 5 {
		panic("usage: record SEED CONFIGURATIONS REDIS FILE")
	}
	seed, _ := strconv.ParseInt(os.Args[1], 10, 64)
	n, _ := strconv.Atoi(os.Args[2])
	addr, out := os.Args[3], os.Args[4]
	logger.SetLevel(logger.PanicLevel)
	r = rand.New(rand.NewSource(seed))
	client = redis.NewClientImpl(context.Background(), gostats.NewStore(gostats.NewNullSink(), false).Scope("x"), false, "", "tcp", "single", addr, 2, 0, 0, nil, false, nil, time.Second, "WAIT", "", time.Millisecond, time.Second, time.Second)
	var buf bytes.Buffer
	z, _ := gzip.NewWriterLevel(&buf, 9)
	requests, refused, over := 0, 0, 0
	for i := 0; i < n; i++ {
		s := run(i)
		line, err := json.Marshal(s)
		if err != nil {
			panic(err)
		}
		z.Write(append(line, '\n'))
		requests += len(s.Steps)
		if s.Refused != "" {
			refused++
		}
		for _, st := range s.Steps {
			if bytes.Contains(st.Response, []byte("OVER_LIMIT")) {
				over++
			}
		}
	}
	z.Close()
	if err := os.WriteFile(out, buf.Bytes(), 0o644); err != nil {
		panic(err)
	}
	fmt.Println(n, "scenarios,", requests, "requests,", over, "with OVER_LIMIT,", refused, "refused configurations,", buf.Len(), "bytes")
}

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
	g := &gen{metadata: s.Metadata}
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
	c := &clock{ms: 1790000000_000 + r.Int63n(400*86400_000)}
	prefix := fmt.Sprintf("%d-%d-", os.Getpid(), i)
	cache := redis.NewFixedRateLimitCacheImpl(client, nil, c, rand.New(utils.NewLockedSource(1)), 1_000_000, nil, 0.8, prefix, m, false)
	p := prov{make(chan provider.ConfigUpdateEvent, 1)}
	p.ch <- event{cfg}
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
			st.Response, _ = protojson.Marshal(resp)
		}
		s.Steps = append(s.Steps, st)
	}
	store.Flush()
	s.Stats = map[string]uint64{}
	for k, v := range flushed {
		if strings.Contains(k, ".rate_limit.") && v > 0 {
			s.Stats[strings.TrimPrefix(k, "ratelimit.service.rate_limit.")] = v
		}
	}
	return s
}

// unambiguous reports whether each counter of the request has a key of its own in Redis: the service makes one key of
// different descriptors, and of windows of different units that begin together.
func unambiguous(q *pb.RateLimitRequest, now int64, g *gen, seen map[string]string) bool {
	add := map[string]string{}
	for _, d := range q.Descriptors {
		units := []int64{1, 60, 3600, 86400, 604800, 2592000, 31536000}
		which := g.unitOf(q.Domain, d)
		if d.Limit != nil {
			which = pb.RateLimitResponse_RateLimit_Unit(d.Limit.Unit).String()
		}
		for i, name := range []string{"SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR"} {
			if name != which {
				continue
			}
			var raw, own strings.Builder
			raw.WriteString(q.Domain)
			for _, e := range d.Entries {
				raw.WriteString("_" + e.Key + "_" + e.Value)
				own.WriteString(strconv.Quote(e.Key) + strconv.Quote(e.Value))
			}
			k := raw.String() + fmt.Sprint(now/units[i]*units[i])
			v := own.String() + name
			if o, ok := seen[k]; ok && o != v {
				return false
			}
			if o, ok := add[k]; ok && o != v {
				return false
			}
			add[k] = v
		}
	}
	for k, v := range add {
		seen[k] = v
	}
	return true
}

// desc is a descriptor of the configuration.
type desc struct {
	key, value, unit string
	children         []*desc
}

// gen makes configurations and requests for them.
type gen struct {
	metadata bool
	values   bool // there may be value_to_metric and detailed_metric, with which the service loses metadata
	domains  map[string][]*desc
	count    int
	cfg      config.RateLimitConfig
}

func pick[T any](list ...T) T { return list[r.Intn(len(list))] }

// files writes the configuration.
func (g *gen) files(s *scenario, mutated bool) {
	g.domains = map[string][]*desc{}
	g.values = !g.metadata
	n := pick(1, 1, 1, 2, 3)
	for i := 0; i < n; i++ {
		domain := pick("edge", "mesh", "edge.example")
		if g.domains[domain] != nil && !s.Merge && !(mutated && chance(0.3)) {
			domain = fmt.Sprint("other", i)
		}
		var b strings.Builder
		if chance(0.1) {
			b.WriteString("# limits\n---\n")
		}
		fmt.Fprintf(&b, "domain: %s\n", domain)
		list := g.list(&b, "", 0, g.domains[domain])
		g.domains[domain] = append(g.domains[domain], list...)
		text := b.String()
		if mutated && chance(0.8) {
			text = mutate(text)
		}
		s.Files = append(s.Files, text)
	}
}

// list writes descriptors, none of which is among those before.
func (g *gen) list(b *strings.Builder, indent string, depth int, before []*desc) (list []*desc) {
	n := 1 + r.Intn(4)
	b.WriteString(indent + "descriptors:\n")
	for i := 0; i < n; i++ {
		d := &desc{key: pick("tenant", "path", "user", "path", "method")}
		if chance(0.65) {
			d.value = pick("ann", "bob", "/a", "/a/b", "/a/b/c", "/a*", "*b", "/*/c", "*", "7", "a.b", "GET", "a_b", "/a*b*")
		}
		dup := false
		for _, o := range append(before[:len(before):len(before)], list...) {
			dup = dup || o.key == d.key && o.value == d.value
		}
		if dup {
			continue
		}
		fmt.Fprintf(b, "%s  - key: %s\n", indent, d.key)
		in := indent + "    "
		if d.value != "" {
			v := d.value
			if v != "7" && chance(0.5) || strings.Contains(v, "*") {
				v = strconv.Quote(v)
			}
			fmt.Fprintf(b, "%svalue: %s\n", in, v)
		}
		if chance(0.75) {
			g.limit(b, in, d)
		}
		flag := func(name string, p float64) bool {
			if chance(p) {
				fmt.Fprintf(b, "%s%s: %s\n", in, name, pick("true", "true", "yes", "false", "on"))
				return true
			}
			return false
		}
		flag("shadow_mode", 0.12)
		flag("quota_mode", 0.15)
		if g.values {
			flag("detailed_metric", 0.15)
			flag("value_to_metric", 0.15)
		}
		if strings.Contains(d.value, "*") {
			flag("share_threshold", 0.4)
		}
		if g.metadata && chance(0.4) {
			g.count++
			fmt.Fprintf(b, "%smetadata:\n%s  m%d: {a: 1, b: [x, 2.5, true, null], c: {d: text}}\n%s  same: v%d\n", in, in, g.count, in, g.count)
		}
		list = append(list, d)
		if depth < 2 && chance(0.45) {
			d.children = g.list(b, in, depth+1, nil)
		}
	}
	if len(list) == 0 {
		d := &desc{key: fmt.Sprint("only", depth)}
		fmt.Fprintf(b, "%s  - key: %s\n", indent, d.key)
		list = append(list, d)
	}
	return list
}

// limit writes a rate_limit.
func (g *gen) limit(b *strings.Builder, in string, d *desc) {
	b.WriteString(in + "rate_limit:\n")
	in += "  "
	if chance(0.3) {
		name := fmt.Sprint("n", r.Intn(5))
		fmt.Fprintf(b, "%sname: %s\n", in, name)
		if chance(0.4) {
			other := fmt.Sprint("n", r.Intn(5))
			if other != name {
				fmt.Fprintf(b, "%sreplaces:\n%s  - name: %s\n", in, in, other)
			}
		}
	}
	if chance(0.1) {
		fmt.Fprintf(b, "%sunlimited: true\n", in)
		return
	}
	d.unit = pick("second", "second", "minute", "hour", "day", "week", "month", "year")
	u := d.unit
	if chance(0.1) {
		u = strings.ToUpper(u)
	}
	fmt.Fprintf(b, "%sunit: %s\n", in, u)
	fmt.Fprintf(b, "%srequests_per_unit: %s\n", in, pick("0", "1", "2", "3", "5", "7", "10", "10", "20", "4294967295", "0x0a", "1_0"))
}

// mutate makes one change that may make the text wrong.
func mutate(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	i := r.Intn(len(lines))
	line := lines[i]
	trimmed := strings.TrimLeft(line, " -")
	in := line[:len(line)-len(trimmed)]
	plain := strings.Repeat(" ", len(in))
	name, _, _ := strings.Cut(trimmed, ":")
	insert := func(s string) { lines = append(lines[:i+1:i+1], append([]string{s}, lines[i+1:]...)...) }
	switch r.Intn(13) {
	case 0:
		lines = append(lines[:i:i], lines[i+1:]...)
	case 1:
		lines[i] = in + name + "s: 1"
	case 2:
		insert(plain + pick("unknown", "Key", "requests", "unit ") + ": x")
	case 3:
		insert(plain + pick("unit: minute", "shadow_mode: true", "unlimited: true", "domain: x", "name: n", "value_to_metric: true", "share_threshold: true", "replaces: []", "metadata: {a: 1}", "descriptors: []", "quota_mode: no"))
	case 4:
		lines[i] = in + name + ": " + pick("1.5", "[]", "{}", "~", `""`, `"7"`, "true", "yes", "-1", "4294967296", "99999999999999999999", "[a]", "{key: a}", "2020-01-01", "second", "1e3", "0b11", "010", "!!str 5", "text", "\"*\"")
	case 5:
		insert(plain + "5: x")
	case 6:
		lines[i] = line + " # said"
	case 7:
		lines[i] = in + "\"" + name + "\":" + strings.TrimPrefix(trimmed, name+":")
	case 8:
		lines[i] = strings.Replace(line, ": ", ":  ", 1)
	case 9:
		lines[i] = "\t" + line
	case 10:
		lines = append(lines, "---", "domain: second")
	case 11:
		lines[i] = in + name + ": &x " + strings.TrimPrefix(strings.TrimPrefix(trimmed, name+":"), " ")
		lines = append(lines, pick("", "name: *x"))
	case 12:
		insert(plain + "metadata: " + pick("5", "{a: {1: b}}", "{a: [1, {b: c}]}", "{}", "[]", "text", "~", "{1: 2}"))
	}
	return strings.Join(lines, "\n") + "\n"
}

// advance sets the clock on: mostly by nothing, sometimes to the edge of a window.
func (g *gen) advance(c *clock) {
	jump := func(unit int64) {
		next := (c.ms/1000/unit + 1) * unit * 1000
		c.ms = next + pick[int64](-1, 0, 0, 1, -1000)
	}
	was := c.ms
	switch x := r.Float64(); {
	case x < 0.6:
	case x < 0.75:
		c.ms += r.Int63n(300)
	case x < 0.85:
		c.ms += r.Int63n(3000)
	case x < 0.89:
		jump(1)
	case x < 0.93:
		jump(60)
	case x < 0.95:
		jump(3600)
	case x < 0.97:
		jump(86400)
	case x < 0.98:
		jump(pick[int64](7*86400, 30*86400))
	}
	c.ms = max(c.ms, was)
}

// request makes a request, mostly one that the configuration limits.
func (g *gen) request() *pb.RateLimitRequest {
	if chance(0.01) {
		return pick(&pb.RateLimitRequest{}, &pb.RateLimitRequest{Domain: "edge"}, &pb.RateLimitRequest{Descriptors: []*common.RateLimitDescriptor{{}}})
	}
	var domains []string
	for _, d := range []string{"edge", "mesh", "edge.example", "other1", "other2"} {
		if g.domains[d] != nil {
			domains = append(domains, d)
		}
	}
	q := &pb.RateLimitRequest{Domain: pick(domains...)}
	if chance(0.03) {
		q.Domain = "nobody"
	}
	q.HitsAddend = pick[uint32](0, 0, 0, 0, 1, 1, 2, 5)
	if chance(0.01) {
		q.HitsAddend = 1<<32 - 1
	}
	n := pick(1, 1, 2, 2, 3, 4)
	for i := 0; i < n; i++ {
		if i > 0 && chance(0.12) {
			q.Descriptors = append(q.Descriptors, q.Descriptors[i-1])
			continue
		}
		q.Descriptors = append(q.Descriptors, g.descriptor(q.Domain))
	}
	return q
}

// descriptor makes one that the configuration has, or nearly.
func (g *gen) descriptor(domain string) *common.RateLimitDescriptor {
	d := &common.RateLimitDescriptor{}
	list := g.domains[domain]
	if len(list) == 0 {
		list = []*desc{{key: "x"}}
	}
	for depth := 0; depth < 4 && len(list) > 0; depth++ {
		c := pick(list...)
		e := &common.RateLimitDescriptor_Entry{Key: c.key, Value: c.value}
		if c.value == "" || chance(0.15) {
			e.Value = pick("", "ann", "bob", "/a", "/a/b", "zed", "a.b")
		}
		if strings.Contains(c.value, "*") {
			e.Value = strings.ReplaceAll(c.value, "*", pick("", "b", "c/d", "x"))
		}
		if chance(0.05) {
			e.Key = pick("tenant", "user", "other")
			if g.values { // another key that gives the text of a wildcard loses metadata, too
				e.Key = pick("tenant", "user", "other", "path_/a", "user_bob")
			}
		}
		d.Entries = append(d.Entries, e)
		list = c.children
		if chance(0.15) && len(list) == 0 {
			list = []*desc{{key: "more"}}
		}
		if chance(0.3) {
			break
		}
	}
	if chance(0.02) {
		d.Entries = nil
	}
	switch {
	case chance(0.08):
		d.HitsAddend = wrapperspb.UInt64(pick[uint64](0, 0, 1, 2, 3))
	case chance(0.01):
		d.HitsAddend = wrapperspb.UInt64(1 << 40)
	}
	if chance(0.06) {
		units := []typev3.RateLimitUnit{typev3.RateLimitUnit_SECOND, typev3.RateLimitUnit_MINUTE, typev3.RateLimitUnit_HOUR, typev3.RateLimitUnit_DAY, typev3.RateLimitUnit(7), typev3.RateLimitUnit_MONTH, typev3.RateLimitUnit_YEAR}
		u := pick(units...)
		if own := g.unitOf(domain, d); own != "" && chance(0.6) {
			u = typev3.RateLimitUnit(pb.RateLimitResponse_RateLimit_Unit_value[own])
		}
		d.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: pick[uint32](0, 1, 3, 8, 100), Unit: u}
	}
	return d
}

// unitOf asks the original which rule a descriptor has.
func (g *gen) unitOf(domain string, d *common.RateLimitDescriptor) string {
	if g.cfg == nil {
		return ""
	}
	l := g.cfg.GetLimit(context.Background(), domain, &common.RateLimitDescriptor{Entries: d.Entries})
	if l == nil || l.Unlimited {
		return ""
	}
	return l.Limit.Unit.String()
}
