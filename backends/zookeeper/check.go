package zookeeper

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/coordgo/coord/driver"
)

// Check implements driver.Operator. It asks the server that the client is connected to. A server may refuse the four letter
// words that tell its settings.
func (b *backend) Check(ctx context.Context) ([]driver.Finding, error) {
	if _, err := b.await(ctx); err != nil {
		return nil, err
	}
	found := []driver.Finding{b.checkSession()}
	conf, told := b.settings(ctx)
	if !told {
		return append(found, driver.Finding{
			Level: driver.LevelSkip, Name: "settings",
			Text: "tick time and connections are not checked: the server does not answer conf; add it to 4lw.commands.whitelist",
		}, checkBuffer()), nil
	}
	cons, err := b.ask(ctx, "cons")
	if err != nil {
		cons = ""
	}
	return append(found, b.checkSync(conf), checkConnections(conf, cons), checkBuffer()), nil
}

// settings are what the word conf tells.
func (b *backend) settings(ctx context.Context) (conf map[string]string, told bool) {
	text, err := b.ask(ctx, "conf")
	if err != nil {
		return nil, false
	}
	conf = map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			conf[name] = value
		}
	}
	return conf, conf["tickTime"] != ""
}

// checkSession compares the session time-out that was asked for with the one that was granted.
func (b *backend) checkSession() driver.Finding {
	granted := b.timeout()
	f := driver.Finding{Level: driver.LevelOK, Name: "session", Text: "time-out " + granted.String()}
	if b.wire == nil || b.wire.want == granted {
		return f
	}
	f.Level, f.Text = driver.LevelWarn, fmt.Sprintf("the server grants %v where %v was asked for: this is the TTL of all locks", granted, b.wire.want)
	f.Remedy = "set session_timeout in the URL between the server's minSessionTimeout and maxSessionTimeout"
	return f
}

// checkSync compares how long a leader may hang with how long locks are certain.
func (b *backend) checkSync(conf map[string]string) driver.Finding {
	tick, _ := strconv.Atoi(conf["tickTime"])
	limit, _ := strconv.Atoi(conf["syncLimit"]) // told by a server of an ensemble only
	sync, third := time.Duration(tick*limit)*time.Millisecond, b.timeout()/3
	f := driver.Finding{Level: driver.LevelOK, Name: "ticks", Text: fmt.Sprintf("tickTime %v", time.Duration(tick)*time.Millisecond)}
	switch {
	case b.alone.Load() || limit == 0:
	case sync > third:
		f.Level, f.Text = driver.LevelWarn, fmt.Sprintf("a leader that hangs is replaced after %v, tickTime × syncLimit: longer than a third of the session, %v", sync, third)
		f.Remedy = "lower tickTime or syncLimit, or raise session_timeout in the URL"
	default:
		f.Text += fmt.Sprintf(", syncLimit %d", limit)
	}
	return f
}

// checkConnections compares the connections of the busiest address with the bound.
func checkConnections(conf map[string]string, cons string) driver.Finding {
	most, _ := strconv.Atoi(conf["maxClientCnxns"])
	f := driver.Finding{Level: driver.LevelOK, Name: "connections", Text: "maxClientCnxns " + conf["maxClientCnxns"]}
	switch {
	case most == 0:
		f.Text = "maxClientCnxns 0: no bound"
		return f
	case !strings.Contains(cons, "]("):
		f.Text += "; those in use are not checked: the server does not answer cons"
		return f
	}
	address, n := busiest(cons)
	f.Text = fmt.Sprintf("%d of %d from %s", n, most, address)
	if n*10 > most*8 {
		f.Level, f.Remedy = driver.LevelWarn, "raise maxClientCnxns: each client of coord has one connection"
	}
	return f
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

// checkBuffer: no word tells it.
func checkBuffer() driver.Finding {
	return driver.Finding{Level: driver.LevelSkip, Name: "jute.maxbuffer", Text: "not checked: ZooKeeper does not tell; the default of 1 MB is enough"}
}
