package redis

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
)

// minVersion is the oldest Redis that has all that the scripts use (GETEX).
var minVersion = [2]int{6, 2}

// probe connects, finds out product and version, refuses a server that is too
// old and warns of one that may evict locks; on a cluster it looks at each master. A
// user who may not ask for INFO gets one warning instead.
func (b *backend) probe(ctx context.Context, log *slog.Logger) (server string, err error) {
	if err := b.Ping(ctx); err != nil {
		return "", err
	}
	servers, err := b.census(ctx, "server", "memory")
	if err != nil {
		if !redis.HasErrorPrefix(err, "NOPERM") {
			return "", classify(err)
		}
		log.WarnContext(ctx, "redis: the user may not run INFO: version and eviction policy are not checked")
		return "", nil
	}
	for _, about := range servers {
		// The nodes of a cluster have one version as a rule: any will do to show.
		if server, err = serverVersion(about); err != nil {
			return "", err
		}
	}
	for _, memory := range servers {
		if policy := memory["maxmemory_policy"]; memory["maxmemory"] != "0" && policy != "" && policy != "noeviction" {
			log.WarnContext(ctx, "redis: the server evicts keys when its memory is full: locks and limits can be lost before their time; set maxmemory-policy noeviction",
				"maxmemory", memory["maxmemory"], "maxmemory-policy", policy)
			break
		}
	}
	return server, nil
}

// probePush reports whether the server lets waiters be told of grants: whether the user may
// publish on their channels. That goes for listening, too, as a rule; to try it would
// take a connection, which a client that never waits does not need.
func (b *backend) probePush(ctx context.Context, log *slog.Logger) (bool, error) {
	err := b.process(ctx, redis.NewIntCmd(ctx, "publish", channelPrefix+"probe", ""))
	switch {
	case err == nil:
		return true, nil
	case refusesPush(err):
		log.WarnContext(ctx, "redis: the user may not publish on coord:wake:*: waiters poll, and wake is not claimed", "err", err)
		return false, nil
	default:
		return false, classify(err)
	}
}

// refusesPush: the server will not have it, now or later.
func refusesPush(err error) bool {
	return redis.HasErrorPrefix(err, "NOPERM") || redis.HasErrorPrefix(err, "ERR unknown command")
}

// census asks each server with data for sections of its INFO.
func (b *backend) census(ctx context.Context, sections ...string) (servers []map[string]string, err error) {
	c := &census{b: b, sections: sections}
	if _, err := b.fly(ctx, c, nil); err != nil {
		return nil, err
	}
	return c.servers, nil
}

type census struct {
	b        *backend
	sections []string
	mu       sync.Mutex
	servers  []map[string]string // the fields that each has told
}

// Process asks them; the command it is given is ignored.
func (c *census) Process(ctx context.Context, _ redis.Cmder) error {
	if c.b.cluster != nil {
		return c.b.cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return c.ask(ctx, node) })
	}
	return c.ask(ctx, c.b.client)
}

func (c *census) ask(ctx context.Context, p processor) error {
	fields := map[string]string{}
	for _, section := range c.sections {
		cmd := redis.NewStringCmd(ctx, "info", section)
		if err := p.Process(ctx, cmd); err != nil {
			return err
		}
		maps.Copy(fields, parseInfo(cmd.Val()))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers = append(c.servers, fields)
	return nil
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
