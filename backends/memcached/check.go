package memcached

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/doctor"
)

// Check implements driver.Operator. Behind an application's client the servers cannot be seen.
func (b *backend) Check(ctx context.Context) ([]driver.Finding, error) {
	if err := b.calls.Ready(ctx); err != nil {
		return nil, err
	}
	var r doctor.Report
	if b.pools == nil {
		r.Check("settings", doctor.Skip(true, "behind the application's client the servers cannot be seen"))
		return r.Findings, nil
	}
	servers := make([]told, len(b.pools.addrs))
	errs := b.pools.each(func(p *pool) (err error) {
		servers[slices.Index(b.pools.addrs, p.addr)], err = runOn(ctx, b, p, (*call).tell)
		return err
	})
	failed := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	if len(failed) == len(servers) {
		return nil, driver.NotSent(errors.Join(errs...))
	}
	r.Check("server", doctor.Fail(len(failed) > 0, fmt.Sprint(errors.Join(failed...)), "start it: locks and limits of its keys fail"))
	for i, s := range servers {
		switch {
		case errs[i] != nil:
		case len(servers) > 1:
			s.judge(&r, " of "+b.pools.addrs[i])
		default:
			s.judge(&r, "")
		}
	}
	return r.Findings, nil
}

// judge compares what a server tells with what docs/operations/memcached.md asks for. of is
// whose it is, if there are several.
func (s told) judge(r *doctor.Report, of string) {
	evicts, evicted := s.settings["evictions"], s.stats.Number("evictions")
	r.Check("eviction"+of,
		doctor.Skip(evicts == "", "the server does not tell its settings"),
		doctor.Fail(evicts == "on" && evicted > 0, fmt.Sprintf("%d items were evicted, after %s without use at the soonest: locks and limits are lost", evicted, s.soonest()),
			"start a server with -M for coord alone"),
		doctor.Fail(evicts == "on", "a full server evicts locks and limits", "start a server with -M for coord alone"),
		doctor.Warn(evicted > 0, fmt.Sprintf("%d items were evicted", evicted), "give coord a server of its own"),
		doctor.OK(true, "off (-M), and no item was evicted"))
	used, most := s.stats.Number("bytes"), s.stats.Number("limit_maxbytes")
	memory := fmt.Sprintf("%.1f of %.1f MB used", float64(used)/1e6, float64(most)/1e6)
	r.Check("memory"+of,
		doctor.Skip(most == 0, "the server does not tell"),
		doctor.Warn(used*10 > most*9, memory+": a full server grants nothing new", "raise -m"),
		doctor.OK(true, memory))
	used, most = s.stats.Number("curr_connections"), s.settings.Number("maxconns")
	connections := fmt.Sprintf("%d of %d", used, most)
	r.Check("connections"+of,
		doctor.Skip(most == 0, "the server does not tell"),
		doctor.Warn(used*10 > most*8, connections, "raise -c above clients × pool_size"),
		doctor.OK(true, connections))
}

// soonest is the shortest time for which an item that was evicted last in its class had not been used.
func (s told) soonest() time.Duration {
	least := int64(-1)
	for name := range s.items {
		slab, ok := strings.CutSuffix(name, ":evicted_time")
		if seconds := s.items.Number(name); ok && s.items.Number(slab+":evicted") > 0 && (least < 0 || seconds < least) {
			least = seconds
		}
	}
	return time.Duration(max(least, 0)) * time.Second
}
