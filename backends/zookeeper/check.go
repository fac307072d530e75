package zookeeper

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/doctor"
)

// Check implements driver.Operator. It asks the server that the client is connected to. A server may refuse the four
// letter words that tell its settings.
func (b *backend) Check(ctx context.Context) ([]driver.Finding, error) {
	if _, err := b.await(ctx); err != nil {
		return nil, err
	}
	granted := b.timeout()
	want := granted
	if b.wire != nil {
		want = b.wire.want
	}
	var r doctor.Report
	r.Check("session",
		doctor.Warn(want != granted, fmt.Sprintf("the server grants %v where %v was asked for: this is the TTL of all locks", granted, want),
			"set session_timeout in the URL between the server's minSessionTimeout and maxSessionTimeout"),
		doctor.OK(true, "time-out "+granted.String()))
	if conf := doctor.Parse(b.ask(ctx, "conf"), "="); conf["tickTime"] != "" {
		b.judge(ctx, &r, conf)
	} else {
		r.Check("settings", doctor.Skip(true, "the server does not answer conf, which tells tick time and connections; add it to 4lw.commands.whitelist"))
	}
	r.Check("jute.maxbuffer", doctor.Skip(true, "ZooKeeper does not tell; the default of 1 MB is enough"))
	return r.Findings, nil
}

// judge compares how long a leader may hang with how long locks are certain, and the connections of
// the busiest address with the bound.
func (b *backend) judge(ctx context.Context, r *doctor.Report, conf doctor.Settings) {
	tick := time.Duration(conf.Number("tickTime")) * time.Millisecond
	limit := conf.Number("syncLimit") // told by a server of an ensemble only
	hangs, third := tick*time.Duration(limit), b.timeout()/3
	r.Check("ticks",
		doctor.OK(b.alone.Load() || limit == 0, fmt.Sprintf("tickTime %v", tick)),
		doctor.Warn(hangs > third, fmt.Sprintf("a leader that hangs is replaced after %v, tickTime × syncLimit: longer than a third of the session, %v", hangs, third),
			"lower tickTime or syncLimit, or raise session_timeout in the URL"),
		doctor.OK(true, fmt.Sprintf("tickTime %v, syncLimit %d", tick, limit)))
	address, used := busiest(b.ask(ctx, "cons"))
	most := int(conf.Number("maxClientCnxns"))
	r.Check("connections",
		doctor.OK(most == 0, "maxClientCnxns 0: no bound"),
		doctor.OK(used == 0, fmt.Sprintf("maxClientCnxns %d; those in use are not checked: the server does not answer cons", most)),
		doctor.Warn(used*10 > most*8, fmt.Sprintf("%d of %d from %s", used, most, address), "raise maxClientCnxns: each client of coord has one connection"),
		doctor.OK(true, fmt.Sprintf("%d of %d from %s", used, most, address)))
}

// busiest is the address with most connections in the answer to cons: lines like " /10.0.0.1:40000[1](queued=0,…)".
func busiest(cons string) (address string, n int) {
	counts := map[string]int{}
	for line := range strings.Lines(cons) {
		line, _, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "/"), "[")
		if i := strings.LastIndexByte(line, ':'); ok && i > 0 {
			host := line[:i]
			if counts[host]++; counts[host] > n {
				address, n = host, counts[host]
			}
		}
	}
	return address, n
}
