// Package all makes every store of this module available to coord.Open, for programs
// that choose by URL:
//
//	import _ "github.com/coordgo/coord/backends/all"
//
// A program that uses one store imports that store's package instead, and so
// carries one client library.
package all

import (
	"slices"

	"github.com/coordgo/coord/backends/etcd"
	"github.com/coordgo/coord/backends/file"
	"github.com/coordgo/coord/backends/memcached"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/backends/postgres"
	"github.com/coordgo/coord/backends/redis"
	"github.com/coordgo/coord/backends/zookeeper"
	"github.com/coordgo/coord/driver"
)

var claims = map[string]driver.Claims{
	"etcd":             etcd.Claims,
	"etcds":            etcd.Claims,
	"file":             file.Claims,
	"memcached":        memcached.Claims,
	"memcacheds":       memcached.Claims,
	"memory":           memory.Claims,
	"postgres":         postgres.Claims,
	"postgresql":       postgres.Claims,
	"redis":            redis.Claims,
	"rediss":           redis.Claims,
	"redis+sentinel":   redis.SentinelClaims,
	"rediss+sentinel":  redis.SentinelClaims,
	"redis+cluster":    redis.ClusterClaims,
	"rediss+cluster":   redis.ClusterClaims,
	"valkey":           redis.Claims,
	"valkeys":          redis.Claims,
	"valkey+sentinel":  redis.SentinelClaims,
	"valkeys+sentinel": redis.SentinelClaims,
	"valkey+cluster":   redis.ClusterClaims,
	"valkeys+cluster":  redis.ClusterClaims,
	"zookeeper":        zookeeper.Claims,
	"zookeepers":       zookeeper.Claims,
}

// Claims are what the store of a scheme claims of itself, nil for a scheme that is
// not of this module.
func Claims(scheme string) driver.Claims { return slices.Clone(claims[scheme]) }
