package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
)

// Describe implements driver.Operator. What the user may not ask is left out. On a
// cluster, masters that do not answer are left out, and settings are those of the one that
// answered last.
func (b *backend) Describe(ctx context.Context) (map[string]string, error) {
	servers, _, err := askAll(ctx, b, b.read)
	if err != nil {
		return nil, err
	}
	servers = slices.DeleteFunc(servers, func(r reading) bool { return r.info == nil })
	if len(servers) == 0 {
		return nil, nil
	}
	settings, replicas := map[string]string{}, int64(0)
	for _, r := range servers {
		replicas += r.info.Number("connected_slaves") // absent: none
	}
	last := servers[len(servers)-1]
	show := func(value, name string) {
		if value != "" {
			settings[name] = value
		}
	}
	show(last.info["maxmemory"], "maxmemory")
	show(last.info["maxmemory_policy"], "maxmemory-policy")
	show(last.info["aof_enabled"], "appendonly")
	if settings["appendonly"] == "1" {
		show(last.config["appendfsync"], "appendfsync")
	}
	if replicas > 0 {
		show(last.config[minReplicas], minReplicas)
		show(last.config[maxLag], maxLag)
	}
	settings["topology"] = fmt.Sprintf("%s, %s", plural(len(servers), "master"), plural(int(replicas), "replica"))
	if n := b.options.replicas; n > 0 {
		settings["wait_replicas"] = strconv.Itoa(n)
	}
	if b.options.sentinels != nil {
		settings["sentinels"] = b.options.sentinels.describe()
	}
	return settings, nil
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
