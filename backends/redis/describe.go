package redis

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"
)

// told are the fields of INFO, and the names of the settings that they show.
var told = map[string]string{
	"maxmemory":        "maxmemory",
	"maxmemory_policy": "maxmemory-policy",
	"aof_enabled":      "appendonly",
}

// Describe implements driver.Operator. What the user may not ask is left out. On a
// cluster, masters that do not answer are left out, and settings are those of the one that
// answered last.
func (b *backend) Describe(ctx context.Context) (map[string]string, error) {
	var mu sync.Mutex
	var servers []map[string]string
	_, err := b.census(ctx, func(ctx context.Context, s server) error {
		about, err := info(ctx, s, "memory", "replication", "persistence")
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		servers = append(servers, about)
		return nil
	})
	if redis.HasErrorPrefix(err, "NOPERM") {
		return nil, nil
	}
	if err != nil {
		return nil, err
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
	if b.options.sentinels != nil {
		settings["sentinels"] = b.options.sentinels.describe()
	}
	if replicas > 0 {
		b.describeMinReplicas(ctx, settings)
	}
	return settings, nil
}

// describeMinReplicas shows what ends the grants of a master that is cut off from its replicas, and advises it.
func (b *backend) describeMinReplicas(ctx context.Context, settings map[string]string) {
	const least, lag = "min-replicas-to-write", "min-replicas-max-lag"
	switch n := b.config(ctx, least); n {
	case "":
	case "0":
		settings[least] = "0: a master that is cut off goes on granting; set 1, with two replicas or more"
	default:
		settings[least], settings[lag] = n, b.config(ctx, lag)
		if settings[lag] == "0" { // Redis then does not look at replicas
			settings[lag] = "0: " + least + " has no effect; set 10 or less"
		}
	}
}

// config reads a setting of the server, or of some server of a cluster. Many services do not let
// anyone read it.
func (b *backend) config(ctx context.Context, name string) string {
	cmd := redis.NewMapStringStringCmd(ctx, "config", "get", name)
	if _, err := b.do(ctx, b.client, cmd); err != nil {
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
