package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/doctor"
)

// minVersion is the oldest Redis that has all that the scripts use (GETEX).
var minVersion = [2]int{6, 2}

// probe connects, finds out product and version, refuses a server that is too
// old and warns of one that may evict locks; on a cluster it looks at each master. One that
// does not answer is not needed by every lock: it is warned of, unless none answers. A
// user who may not ask for INFO gets one warning instead. It gives the claims that the user's permissions do not allow.
func (b *backend) probe(ctx context.Context, log *slog.Logger) (server string, missing driver.Claims, err error) {
	servers, silent, err := askAll(ctx, b, greet)
	if err != nil {
		return "", nil, err
	}
	if len(silent) > 0 {
		log.WarnContext(ctx, "redis: some masters of the cluster do not answer", "err", errors.Join(silent...))
	}
	if slices.ContainsFunc(servers, func(s greeting) bool { return s.info == nil }) {
		missing = append(missing, driver.Vote)
		log.WarnContext(ctx, "redis: the user may not run INFO: version and eviction policy are not checked, and vote is not claimed")
	}
	if i := slices.IndexFunc(servers, func(s greeting) bool { return s.noPush != nil }); i >= 0 {
		missing = append(missing, driver.Wake)
		log.WarnContext(ctx, "redis: the user may not publish on coord:wake:*: waiters poll, and wake is not claimed", "err", servers[i].noPush)
	}
	for _, s := range servers {
		if s.info == nil {
			continue
		}
		// The nodes of a cluster have one version as a rule: any will do to show.
		if server, err = serverVersion(s.info); err != nil {
			return "", nil, err
		}
	}
	if i := slices.IndexFunc(servers, func(s greeting) bool { return evicts(s.info) }); i >= 0 {
		log.WarnContext(ctx, "redis: the server evicts keys when its memory is full: locks and limits can be lost before their time; set maxmemory-policy noeviction",
			"maxmemory", servers[i].info["maxmemory"], "maxmemory-policy", servers[i].info["maxmemory_policy"])
	}
	return server, missing, nil
}

// greeting is what the probe has found out of a server.
type greeting struct {
	info   doctor.Settings // nil if the user may not ask
	noPush error           // it does not let waiters be notified
}

// greet looks whether a server serves, what it is, and whether it lets waiters be notified of
// grants: whether the user may publish on their channels. That goes for subscriptions, too, as
// a rule; to try one would take a connection, which a client that never waits does not need.
func greet(ctx context.Context, s server) (g greeting, err error) {
	if err := s.serves(ctx); err != nil {
		return g, err
	}
	if g.info, err = info(ctx, s); err != nil && !redis.HasErrorPrefix(err, "NOPERM") {
		return g, err
	}
	if err := unfit(g.info); err != nil {
		return g, err
	}
	if g.noPush = tryPublish(ctx, s); g.noPush != nil && !refused(g.noPush) {
		return g, g.noPush
	}
	return g, nil
}

func tryPublish(ctx context.Context, s server) error {
	return s.Process(ctx, redis.NewIntCmd(ctx, "publish", channelPrefix+"probe", ""))
}

// serverVersion gives "redis 7.0.15" or "valkey 8.0.1", which says that it is
// compatible with some redis_version.
func serverVersion(about doctor.Settings) (string, error) {
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
