package redis

import (
	"context"
	"errors"
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

// found is what the probe has found out.
type found struct {
	mu     sync.Mutex
	about  []map[string]string // INFO of each server that may be asked for it
	noInfo bool                // some server did not tell
	noPush error               // some server does not let waiters be notified
}

// probe connects, finds out product and version, refuses a server that is too
// old and warns of one that may evict locks; on a cluster it looks at each master. One that
// does not answer is not needed by every lock: it is warned of, unless none answers. A
// user who may not ask for INFO gets one warning instead. It gives the claims that the user's permissions do not allow.
func (b *backend) probe(ctx context.Context, log *slog.Logger) (server string, missing driver.Claims, err error) {
	var f found
	silent, err := b.census(ctx, f.ask)
	if err != nil {
		return "", nil, err
	}
	if len(silent) > 0 {
		log.WarnContext(ctx, "redis: some masters of the cluster do not answer", "err", errors.Join(silent...))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.noInfo {
		missing = append(missing, driver.Vote)
		log.WarnContext(ctx, "redis: the user may not run INFO: version and eviction policy are not checked, and vote is not claimed")
	}
	if f.noPush != nil {
		missing = append(missing, driver.Wake)
		log.WarnContext(ctx, "redis: the user may not publish on coord:wake:*: waiters poll, and wake is not claimed", "err", f.noPush)
	}
	for _, about := range f.about {
		// The nodes of a cluster have one version as a rule: any will do to show.
		if server, err = serverVersion(about); err != nil {
			return "", nil, err
		}
	}
	for _, memory := range f.about {
		if policy := memory["maxmemory_policy"]; memory["maxmemory"] != "0" && policy != "" && policy != "noeviction" {
			log.WarnContext(ctx, "redis: the server evicts keys when its memory is full: locks and limits can be lost before their time; set maxmemory-policy noeviction",
				"maxmemory", memory["maxmemory"], "maxmemory-policy", policy)
			break
		}
	}
	return server, missing, nil
}

// ask looks whether a server serves, what it is, and whether it lets waiters be notified of
// grants: whether the user may publish on their channels. That goes for subscriptions, too, as
// a rule; to try one would take a connection, which a client that never waits does not need.
func (f *found) ask(ctx context.Context, s server) error {
	if err := s.serves(ctx); err != nil {
		return err
	}
	about, err := info(ctx, s, "server", "memory", "replication")
	if err != nil && !redis.HasErrorPrefix(err, "NOPERM") {
		return err
	}
	if err := unfit(about); err != nil {
		return err
	}
	push := s.Process(ctx, redis.NewIntCmd(ctx, "publish", channelPrefix+"probe", ""))
	if push != nil && !refusesPush(push) {
		return push
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.noInfo = true
	} else {
		f.about = append(f.about, about)
	}
	if push != nil {
		f.noPush = push
	}
	return nil
}

// refusesPush: the server will not have it, now or later.
func refusesPush(err error) bool {
	return redis.HasErrorPrefix(err, "NOPERM") || redis.HasErrorPrefix(err, "ERR unknown command")
}

// info asks a server for sections of its INFO.
func info(ctx context.Context, p processor, sections ...string) (map[string]string, error) {
	fields := map[string]string{}
	for _, section := range sections {
		cmd := redis.NewStringCmd(ctx, "info", section)
		if err := p.Process(ctx, cmd); err != nil {
			return nil, err
		}
		maps.Copy(fields, parseInfo(cmd.Val()))
	}
	return fields, nil
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
