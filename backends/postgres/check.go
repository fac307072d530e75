package postgres

import (
	"context"
	"fmt"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/doctor"
)

// told is what the server tells of itself.
type told struct {
	version                     int
	fsync, pages, commit        string
	standbys, autovacuum        string
	connections, used, replicas int
	live, dead                  int64
}

func (b *backend) tell(ctx context.Context) (told, error) {
	return run(ctx, b, func(ctx context.Context, c conn) (s told, err error) {
		_, err = c.row(ctx, b.sql.check, []any{b.options.schema}, &s.version, &s.fsync, &s.pages, &s.commit, &s.standbys,
			&s.autovacuum, &s.connections, &s.used, &s.replicas, &s.live, &s.dead)
		return s, notSent(err)
	})
}

// Describe implements driver.Operator.
func (b *backend) Describe(ctx context.Context) (map[string]string, error) {
	s, err := b.tell(ctx)
	if err != nil {
		return nil, err
	}
	settings := map[string]string{"topology": "1 server", "fsync": s.fsync, "synchronous_commit": s.commit}
	if s.replicas > 0 {
		settings["topology"] = fmt.Sprintf("a primary and %d replicas", s.replicas)
		settings["synchronous_standby_names"] = s.standbys
	}
	return settings, nil
}

// Check implements driver.Operator.
func (b *backend) Check(ctx context.Context) ([]driver.Finding, error) {
	s, err := b.tell(ctx)
	if err != nil {
		return nil, err
	}
	var r doctor.Report
	s.judge(&r)
	return r.Findings, nil
}

// judge compares what the server tells with what the package comment asks for. Open has refused a
// version that is not supported.
func (s told) judge(r *doctor.Report) {
	r.Check("version", doctor.OK(true, fmt.Sprintf("PostgreSQL %d.%d", s.version/10_000, s.version%10_000)))
	durability := fmt.Sprintf("fsync %s, full_page_writes %s, synchronous_commit %s", s.fsync, s.pages, s.commit)
	r.Check("durability",
		doctor.Fail(s.fsync != "on" || s.pages != "on" || s.commit == "off", durability, "set all to on: a crash of the server loses locks, or the database"),
		doctor.Warn(s.commit == "local", durability, "set synchronous_commit to on: with local no commit waits for a replica"),
		doctor.OK(true, durability))
	replicas := fmt.Sprintf("%d replicas", s.replicas)
	r.Check("replication",
		doctor.OK(s.replicas == 0, replicas),
		doctor.Warn(s.standbys == "", replicas+", none of them synchronous: a failover can lose the last locks", "set synchronous_standby_names"),
		doctor.OK(true, replicas+", synchronous_standby_names is set"))
	connections := fmt.Sprintf("%d of %d", s.used, s.connections)
	r.Check("connections",
		doctor.Warn(s.used*10 > s.connections*8, connections, "raise max_connections above clients × (pool_size + 2), or use a pooler"),
		doctor.OK(true, connections))
	rows := fmt.Sprintf("%d dead rows beside %d", s.dead, s.live)
	r.Check("vacuum",
		doctor.Warn(s.autovacuum != "on", rows+"; autovacuum is off", "set autovacuum to on: the tables grow for ever"),
		doctor.Warn(s.dead > 100_000 && s.dead > 10*s.live, rows, "end transactions that have been open for long: they keep autovacuum from removing dead rows"),
		doctor.OK(true, rows))
}
