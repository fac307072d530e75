package redis

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
)

var _ driver.Describer = (*backend)(nil)

// told are the fields of INFO, and the names of the settings that they show.
var told = map[string]string{
	"maxmemory":        "maxmemory",
	"maxmemory_policy": "maxmemory-policy",
	"aof_enabled":      "appendonly",
}

// Describe implements driver.Describer. What the user may not ask is left out. On a
// cluster, settings are those of the master that answered last.
func (b *backend) Describe(ctx context.Context) (map[string]string, error) {
	servers, err := b.census(ctx, "memory", "replication", "persistence")
	if redis.HasErrorPrefix(err, "NOPERM") {
		return nil, nil
	}
	if err != nil {
		return nil, classify(err)
	}
	settings, replicas := map[string]string{}, 0
	for _, about := range servers {
		for field, name := range told {
			if value := about[field]; value != "" {
				settings[name] = value
			}
		}
		n, _ := strconv.Atoi(about["connected_slaves"]) // absent: none
		replicas += n
	}
	settings["topology"] = fmt.Sprintf("%s, %s", plural(len(servers), "master"), plural(replicas, "replica"))
	if settings["appendonly"] == "1" {
		if fsync := b.config(ctx, "appendfsync"); fsync != "" {
			settings["appendfsync"] = fsync
		}
	}
	if n := b.options.replicas; n > 0 {
		settings["wait_replicas"] = strconv.Itoa(n)
	}
	return settings, nil
}

// config reads a setting of the server, or of some server of a cluster. Many services do not let
// anyone read it.
func (b *backend) config(ctx context.Context, name string) string {
	cmd := redis.NewMapStringStringCmd(ctx, "config", "get", name)
	if _, err := b.fly(ctx, b.client, cmd); err != nil {
		return ""
	}
	return cmd.Val()[name]
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
