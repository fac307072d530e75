package redis

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver/doctor"
)

// reading is what a server tells of itself. What it does not tell, or the user may not ask, is not
// there.
type reading struct {
	addr    string          // of a master of a cluster
	info    doctor.Settings // INFO; nil if the user may not ask
	config  doctor.Settings // CONFIG GET of what is in configs
	cluster doctor.Settings // CLUSTER INFO
}

// What ends the grants of a master that is cut off from its replicas.
const minReplicas, maxLag = "min-replicas-to-write", "min-replicas-max-lag"

// configs are the settings that INFO does not have.
var configs = []string{"appendfsync", "save", minReplicas, maxLag}

// read asks a server for all of it. An error means that it does not answer.
func (b *backend) read(ctx context.Context, s server) (r reading, err error) {
	r = reading{addr: s.addr, config: doctor.Settings{}, cluster: doctor.Settings{}}
	if r.info, err = info(ctx, s); err != nil && !refused(err) {
		return r, err
	}
	for _, name := range configs {
		cmd := redis.NewMapStringStringCmd(ctx, "config", "get", name)
		if err := s.Process(ctx, cmd); err != nil && !refused(err) {
			return r, err
		}
		if value, ok := cmd.Val()[name]; ok {
			r.config[name] = value
		}
	}
	if b.cluster != nil {
		cmd := redis.NewStringCmd(ctx, "cluster", "info")
		if err := s.Process(ctx, cmd); err != nil && !refused(err) {
			return r, err
		}
		r.cluster = doctor.Parse(cmd.Val(), ":")
	}
	return r, nil
}

// refused: the user may not run the command, or the server does not have it.
func refused(err error) bool {
	return redis.HasErrorPrefix(err, "NOPERM") || redis.HasErrorPrefix(err, "ERR unknown")
}

// info asks a server for INFO.
func info(ctx context.Context, p processor) (doctor.Settings, error) {
	cmd := redis.NewStringCmd(ctx, "info")
	if err := p.Process(ctx, cmd); err != nil {
		return nil, err
	}
	return doctor.Parse(cmd.Val(), ":"), nil
}
