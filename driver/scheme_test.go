package driver

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// Each scheme of this module names its package. backends/all has a test that there are no others.
func TestSchemePackages(t *testing.T) {
	for pkg, schemes := range map[string]string{
		"memory": "memory", "file": "file", "etcd": "etcd etcds", "zookeeper": "zookeeper zookeepers", "memcached": "memcached memcacheds",
		"postgres": "postgres postgresql",
		"redis":    "redis redis+cluster redis+sentinel rediss rediss+cluster rediss+sentinel valkey valkey+cluster valkey+sentinel valkeys valkeys+cluster valkeys+sentinel",
	} {
		for scheme := range strings.FieldsSeq(schemes) {
			if got, want := schemePackages()[scheme], `"github.com/coordgo/coord/backends/`+pkg+`"`; got != want {
				t.Errorf("%s: import %s, want %s", scheme, got, want)
			}
		}
	}
}

func TestNearest(t *testing.T) {
	names := slices.Sorted(maps.Keys(schemePackages()))
	for s, want := range map[string]string{
		"reddis": "redis", "redsi": "redis", "redis-sentinel": "redis+sentinel", "rediscluster": "redis+cluster", "memcache": "memcached",
		"zookeper": "zookeeper", "etdc": "etcd", "vakley": "valkey", "flie": "file", "mem": "", "postgres": "postgres", "pg": "", "mysql": "", "http": "", "x": "", "": "",
	} {
		if got := nearest(s, names); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}
