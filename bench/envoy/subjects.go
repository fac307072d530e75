package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/coordgo/coord/internal/testserver"
)

// subject is one way to limit that is measured.
type subject struct {
	name, about string // of Markdown
	ours        bool
	protocol
	domain string
	most   int                              // descriptors that it is measured with; 0: any number
	spec   func(l *lab) (serverSpec, error) // of its own process
	redis  bool                             // it counts there
}

// original is what others are compared with.
const original = "envoyproxy/ratelimit"

// plenty is a limit of an hour that is never reached.
const plenty = 400_000_000

func subjects() []subject {
	return []subject{
		{
			name: original, about: "its statistics for Prometheus, as coord has them",
			protocol: envoyProtocol, domain: "envoy", redis: true,
			spec: func(l *lab) (serverSpec, error) {
				return l.ratelimit("USE_PROMETHEUS=true", "PROMETHEUS_ADDR=127.0.0.1:"+testserver.FreePort(l.t))
			},
		},
		{
			name: original + ", no statistics", about: "`DISABLE_STATS`",
			protocol: envoyProtocol, domain: "envoy", redis: true,
			spec: func(l *lab) (serverSpec, error) { return l.ratelimit("DISABLE_STATS=true") },
		},
		{
			name: "coord, envoy", about: "`counting: envoy`, the default", ours: true,
			protocol: envoyProtocol, domain: "envoy", spec: (*lab).coord, redis: true,
		},
		{
			name: "coord, exact", about: "`counting: exact`", ours: true,
			protocol: envoyProtocol, domain: "exact", spec: (*lab).coord, redis: true,
		},
		{
			name: "coord, leased", about: "the same with `lease: true`, which is for one descriptor", ours: true,
			protocol: envoyProtocol, domain: "leased", most: 1, spec: (*lab).coord, redis: true,
		},
		{
			name: "gubernator", about: "one alone, which counts in its own memory; two descriptors are two limits of a request",
			protocol: gubernatorProtocol, spec: (*lab).gubernator,
		},
	}
}

// files are the configuration of coord, by name. The first is that of the original, too.
func files() map[string]string {
	const two = `domain: %s
%sdescriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: %d%s}}
  - {key: path, rate_limit: {unit: hour, requests_per_unit: %d%s}}
`
	return map[string]string{
		"envoy.yaml": fmt.Sprintf(two, "envoy", "", plenty, "", plenty, ""),
		"exact.yaml": fmt.Sprintf(two, "exact", "counting: exact\n", plenty, "", plenty, ""),
		// A limit has one lease: this is another one than that of exact.yaml.
		"leased.yaml":  fmt.Sprintf(two, "leased", "counting: exact\n", plenty-1, ", lease: true", plenty-1, ", lease: true"),
		"counted.yaml": quotaFile("counted", ""),
		"bounded.yaml": quotaFile("bounded", "counting: exact\n"),
	}
}

// ratelimit is the original, with its own settings but for addresses and statistics. With USE_STATSD=false alone it would
// write a line about each request.
func (l *lab) ratelimit(statistics ...string) (serverSpec, error) {
	port := testserver.FreePort(l.t)
	root := l.t.TempDir()
	if err := write(filepath.Join(root, "bench", "config"), "envoy.yaml"); err != nil {
		return serverSpec{}, err
	}
	env := append([]string{
		"HOST=127.0.0.1", "PORT=" + testserver.FreePort(l.t), "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=" + testserver.FreePort(l.t),
		"GRPC_HOST=127.0.0.1", "GRPC_PORT=" + port, "LOG_LEVEL=error", "USE_STATSD=false",
		"RUNTIME_ROOT=" + root, "RUNTIME_SUBDIRECTORY=bench", "BACKEND_TYPE=redis", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + l.redis.Addr,
	}, statistics...)
	return serverSpec{program: "service_cmd", env: env, addr: "127.0.0.1:" + port}, nil
}

// coord is "coord serve", with more calls of one caller at once than there are.
func (l *lab) coord() (serverSpec, error) {
	dir := l.t.TempDir()
	addr := "127.0.0.1:" + testserver.FreePort(l.t)
	rules := filepath.Join(dir, "rules")
	for name := range files() {
		if err := write(rules, name); err != nil {
			return serverSpec{}, err
		}
	}
	config := fmt.Sprintf("url: redis://%s/0\nserve:\n  listen: 127.0.0.1:%s\n  grpc_listen: %s\n  max_requests: 1000\n  envoy: {files: [%s]}\n",
		l.redis.Addr, testserver.FreePort(l.t), addr, rules)
	path := filepath.Join(dir, "coord.yaml")
	return serverSpec{program: "coord", args: []string{"serve", "--config", path}, addr: addr}, os.WriteFile(path, []byte(config), 0o600)
}

// gubernator is one alone, which would make a trace of each request by default.
func (l *lab) gubernator() (serverSpec, error) {
	addr := "127.0.0.1:" + testserver.FreePort(l.t)
	members := "127.0.0.1:" + testserver.FreePort(l.t) // itself
	env := []string{
		"GUBER_GRPC_ADDRESS=" + addr, "GUBER_HTTP_ADDRESS=127.0.0.1:" + testserver.FreePort(l.t),
		"GUBER_MEMBERLIST_ADDRESS=" + members, "GUBER_MEMBERLIST_BIND_ADDRESS=" + members, "GUBER_MEMBERLIST_KNOWN_NODES=" + members,
		"GUBER_LOG_LEVEL=error", "OTEL_TRACES_EXPORTER=none", "OTEL_TRACES_SAMPLER=always_off",
	}
	return serverSpec{program: "gubernator", env: env, addr: addr}, nil
}

// write writes one of the files into a directory that it makes.
func write(dir, name string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name), []byte(files()[name]), 0o600)
}
