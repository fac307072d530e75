package postgres

import (
	"context"
	"fmt"

	"github.com/coordgo/coord/driver"
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
	return []driver.Finding{s.checkVersion(), s.checkDurability(), s.checkReplication(), s.checkConnections(), s.checkVacuum()}, nil
}

// checkVersion tells it: Open has refused what is not supported.
func (s told) checkVersion() driver.Finding {
	return driver.Finding{Level: driver.LevelOK, Name: "version", Text: fmt.Sprintf("PostgreSQL %d.%d", s.version/10_000, s.version%10_000)}
}

func (s told) checkDurability() driver.Finding {
	f := driver.Finding{Level: driver.LevelOK, Name: "durability", Text: fmt.Sprintf("fsync %s, full_page_writes %s, synchronous_commit %s", s.fsync, s.pages, s.commit)}
	switch {
	case s.fsync != "on" || s.pages != "on" || s.commit == "off":
		f.Level, f.Remedy = driver.LevelFail, "set all to on: a crash of the server loses locks, or the database"
	case s.commit == "local":
		f.Level, f.Remedy = driver.LevelWarn, "set synchronous_commit to on: with local no commit waits for a replica"
	}
	return f
}

func (s told) checkReplication() driver.Finding {
	f := driver.Finding{Level: driver.LevelOK, Name: "replication", Text: fmt.Sprintf("%d replicas", s.replicas)}
	switch {
	case s.replicas > 0 && s.standbys == "":
		f.Level, f.Text = driver.LevelWarn, f.Text+", none of them synchronous: a failover can lose the last locks"
		f.Remedy = "set synchronous_standby_names"
	case s.replicas > 0:
		f.Text += ", synchronous_standby_names is set"
	}
	return f
}

func (s told) checkConnections() driver.Finding {
	f := driver.Finding{Level: driver.LevelOK, Name: "connections", Text: fmt.Sprintf("%d of %d", s.used, s.connections)}
	if s.used*10 > s.connections*8 {
		f.Level, f.Remedy = driver.LevelWarn, "raise max_connections above clients × (pool_size + 2), or use a pooler"
	}
	return f
}

func (s told) checkVacuum() driver.Finding {
	f := driver.Finding{Level: driver.LevelOK, Name: "vacuum", Text: fmt.Sprintf("%d dead rows beside %d", s.dead, s.live)}
	switch {
	case s.autovacuum != "on":
		f.Level, f.Text, f.Remedy = driver.LevelWarn, f.Text+"; autovacuum is off", "set autovacuum to on: the tables grow for ever"
	case s.dead > 100_000 && s.dead > 10*s.live:
		f.Level, f.Remedy = driver.LevelWarn, "end transactions that have been open for long: they keep autovacuum from removing dead rows"
	}
	return f
}
