package memcached

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/coordgo/coord/driver"
)

// told is what a server tells of itself now.
type told struct {
	settings, stats, items map[string]string
}

// Check implements driver.Operator. Behind an application's client the servers cannot be seen.
func (b *backend) Check(ctx context.Context) ([]driver.Finding, error) {
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	if b.pools == nil {
		return []driver.Finding{{Level: driver.LevelSkip, Name: "settings", Text: "not checked: behind the application's client the servers cannot be seen"}}, nil
	}
	states := make(map[string]*told, len(b.pools.addrs))
	for _, addr := range b.pools.addrs {
		states[addr] = new(told)
	}
	errs := b.pools.each(func(p *pool) error {
		_, err := runOn(ctx, b, p, func(c *call) (struct{}, error) {
			return struct{}{}, states[p.addr].read(c)
		})
		return err
	})
	var found []driver.Finding
	for i, addr := range b.pools.addrs {
		several := len(b.pools.addrs) > 1
		if errs[i] != nil {
			found = append(found, driver.Finding{Level: driver.LevelFail, Name: "server", Text: errs[i].Error(), Remedy: "start it: locks and limits of its keys fail"})
		} else {
			found = append(found, states[addr].judge(addr, several)...)
		}
	}
	if !anyNil(errs) {
		return nil, driver.NotSent(errors.Join(errs...))
	}
	return found, nil
}

func anyNil(errs []error) bool {
	for _, err := range errs {
		if err == nil {
			return true
		}
	}
	return false
}

// read asks one server.
func (s *told) read(c *call) error {
	if err := c.client.Ping(); err != nil { // which makes the connection
		return notSent(err)
	}
	err := c.conn.raw(func(conn net.Conn, r *bufio.Reader) (err error) {
		for kind, values := range map[string]*map[string]string{"settings": &s.settings, "": &s.stats, "items": &s.items} {
			if *values, err = stats(conn, r, kind); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return notSent(err)
	}
	return nil
}

// judge compares what a server tells with what docs/operations-memcached-file.md asks for.
func (s *told) judge(addr string, several bool) []driver.Finding {
	found := []driver.Finding{s.checkEviction(), s.checkMemory(), s.checkConnections()}
	if several {
		for i := range found {
			found[i].Name += " of " + addr
		}
	}
	return found
}

func (s *told) checkEviction() driver.Finding {
	f := driver.Finding{Level: driver.LevelOK, Name: "eviction", Text: "off (-M), and no item was evicted"}
	evicted := number(s.stats["evictions"])
	switch {
	case s.settings["evictions"] == "":
		f.Level, f.Text = driver.LevelSkip, "not checked: the server does not tell its settings"
	case s.settings["evictions"] == "on" && evicted > 0:
		f.Level, f.Text = driver.LevelFail, fmt.Sprintf("%d items were evicted, after %s without use at the soonest: locks and limits are lost", evicted, s.soonest())
		f.Remedy = "start a server with -M for coord alone"
	case s.settings["evictions"] == "on":
		f.Level, f.Text = driver.LevelFail, "a full server evicts locks and limits"
		f.Remedy = "start a server with -M for coord alone"
	case evicted > 0:
		f.Level, f.Text, f.Remedy = driver.LevelWarn, fmt.Sprintf("%d items were evicted", evicted), "give coord a server of its own"
	}
	return f
}

// soonest is the shortest time for which an item that was evicted last in its class had not been used.
func (s *told) soonest() time.Duration {
	least := int64(-1)
	for name, value := range s.items {
		slab, ok := strings.CutSuffix(name, ":evicted_time")
		if seconds := number(value); ok && number(s.items[slab+":evicted"]) > 0 && (least < 0 || seconds < least) {
			least = seconds
		}
	}
	return time.Duration(max(least, 0)) * time.Second
}

func (s *told) checkMemory() driver.Finding {
	used, most := number(s.stats["bytes"]), number(s.stats["limit_maxbytes"])
	f := driver.Finding{Level: driver.LevelOK, Name: "memory", Text: fmt.Sprintf("%.1f of %.1f MB used", float64(used)/1e6, float64(most)/1e6)}
	switch {
	case most == 0:
		f.Level, f.Text = driver.LevelSkip, "not checked: the server does not tell"
	case used*10 > most*9:
		f.Level, f.Text, f.Remedy = driver.LevelWarn, f.Text+": a full server grants nothing new", "raise -m"
	}
	return f
}

func (s *told) checkConnections() driver.Finding {
	used, most := number(s.stats["curr_connections"]), number(s.settings["maxconns"])
	f := driver.Finding{Level: driver.LevelOK, Name: "connections", Text: fmt.Sprintf("%d of %d", used, most)}
	switch {
	case most == 0:
		f.Level, f.Text = driver.LevelSkip, "not checked: the server does not tell"
	case used*10 > most*8:
		f.Level, f.Remedy = driver.LevelWarn, "raise -c above clients × pool_size"
	}
	return f
}

// number is 0 of what is no number.
func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
