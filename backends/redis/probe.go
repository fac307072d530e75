package redis

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
)

// minVersion is the oldest Redis that has all that the scripts use (GETEX).
var minVersion = [2]int{6, 2}

// probe connects, finds out product and version, refuses a server that is too
// old and warns of one that may evict locks. A user who may not ask for INFO
// gets one warning instead.
func (b *backend) probe(ctx context.Context, log *slog.Logger) (server string, err error) {
	if err := b.Ping(ctx); err != nil {
		return "", err
	}
	about, err := b.infoOf(ctx, "server")
	if err != nil {
		if !redis.HasErrorPrefix(err, "NOPERM") {
			return "", classify(err)
		}
		log.WarnContext(ctx, "redis: the user may not run INFO: version and eviction policy are not checked")
		return "", nil
	}
	server, err = serverVersion(about)
	if err != nil {
		return "", err
	}
	memory, err := b.infoOf(ctx, "memory")
	if err != nil {
		return "", classify(err)
	}
	if policy := memory["maxmemory_policy"]; memory["maxmemory"] != "0" && policy != "" && policy != "noeviction" {
		log.WarnContext(ctx, "redis: the server evicts keys when its memory is full: locks and limits can be lost before their time; set maxmemory-policy noeviction",
			"maxmemory", memory["maxmemory"], "maxmemory-policy", policy)
	}
	return server, nil
}

// infoOf gives the fields of one section of INFO.
func (b *backend) infoOf(ctx context.Context, section string) (map[string]string, error) {
	cmd := redis.NewStringCmd(ctx, "info", section)
	if err := b.process(ctx, cmd); err != nil {
		return nil, err
	}
	return parseInfo(cmd.Val()), nil
}

func parseInfo(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// serverVersion gives "redis 7.0.15" or "valkey 8.0.1", which says that it is
// compatible with some redis_version.
func serverVersion(about map[string]string) (string, error) {
	version := about["redis_version"]
	if version == "" {
		return "", nil // a compatible product that does not say
	}
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	x, err1 := strconv.Atoi(major)
	y, err2 := strconv.Atoi(minor)
	if err1 == nil && err2 == nil && (x < minVersion[0] || x == minVersion[0] && y < minVersion[1]) {
		return "", fmt.Errorf("%w: redis %s: want %d.%d or later", driver.ErrUnsupported, version, minVersion[0], minVersion[1])
	}
	if valkey := about["valkey_version"]; valkey != "" {
		return "valkey " + valkey, nil
	}
	return "redis " + version, nil
}
