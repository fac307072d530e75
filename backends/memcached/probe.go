package memcached

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/doctor"
)

// minVersion is the oldest memcached whose cas and expiry are as the package comment says.
var minVersion = [3]int{1, 4, 23}

// metaVersion is the oldest one whose meta commands are as they are today.
var metaVersion = [3]int{1, 6, 0}

// probe looks at the server of c before its first use. It has to be 1.4.23 or later with
// compare-and-swap, and should not evict. A full server cannot be tried: there its settings count.
func (c *call) probe() error {
	p := c.conn.pool
	if p.told.Load() != nil {
		return nil
	}
	err := tryCAS(c.client)
	untried := full(err)
	if err != nil && !untried {
		return notSent(err)
	}
	t, err := c.tell()
	if err != nil {
		return err
	}
	if untried && t.settings["cas_enabled"] != "yes" {
		return fmt.Errorf("%w: the server is full, and does not tell whether compare-and-swap works", driver.ErrNotSent)
	}
	if before(t.version, minVersion) {
		return fmt.Errorf("%w: memcached %s: want %d.%d.%d or later", driver.ErrUnsupported, t.version, minVersion[0], minVersion[1], minVersion[2])
	}
	switch t.settings["evictions"] {
	case "on":
		c.b.log.Warn("memcached: the server evicts items when its memory is full: locks and limits can be lost before their time; give coord a server of its own, with -M", "server", p.addr)
	case "":
		c.b.log.Warn("memcached: the server does not tell its settings: whether it evicts is not checked", "server", p.addr)
	}
	p.told.Store(&t)
	return nil
}

// told is what a server tells of itself; what it does not tell is "", or not there.
type told struct {
	version                string
	settings, stats, items doctor.Settings
}

// tell asks for what gomemcache has no commands for.
func (c *call) tell() (t told, err error) {
	if err := c.client.Ping(); err != nil { // which makes the connection: a refused write has ended the last one
		return t, notSent(err)
	}
	err = c.conn.raw(func(conn net.Conn, r *bufio.Reader) error {
		line, err := command(conn, r, "version\r\n")
		if err != nil {
			return err
		}
		t.version, _ = strings.CutPrefix(line, "VERSION ")
		for kind, values := range map[string]*doctor.Settings{"settings": &t.settings, "": &t.stats, "items": &t.items} {
			if *values, err = stats(conn, r, kind); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return t, notSent(err)
	}
	return t, nil
}

// stats asks for statistics of one kind; "" is the general ones. A server that does not tell answers with one line of an
// error.
func stats(conn net.Conn, r *bufio.Reader, kind string) (values doctor.Settings, err error) {
	values = doctor.Settings{}
	line, err := command(conn, r, strings.TrimSpace("stats "+kind)+"\r\n")
	for err == nil {
		rest, ok := strings.CutPrefix(line, "STAT ")
		if !ok {
			return values, nil
		}
		name, value, _ := strings.Cut(rest, " ")
		values[name] = value
		line, err = r.ReadString('\n')
		line = strings.TrimRight(line, "\r\n")
	}
	return values, err
}

// before reports whether a version is before another one. One that cannot be read is not.
func before(version string, other [3]int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 3 {
		return false
	}
	for i, want := range other {
		digits := parts[i]
		if end := strings.IndexFunc(digits, func(c rune) bool { return c < '0' || c > '9' }); end >= 0 {
			digits = digits[:end]
		}
		n, err := strconv.Atoi(digits)
		if err != nil || n > want {
			return false
		}
		if n < want {
			return true
		}
	}
	return false
}

// probeCAS tries compare-and-swap.
func (b *backend) probeCAS(ctx context.Context) error {
	_, err := run(ctx, b, name{}, func(c *call) (struct{}, error) {
		return struct{}{}, tryCAS(c.client)
	})
	return err
}

// errCAS is why a server is refused.
var errCAS = errors.New("compare-and-swap does not work: was memcached started with -C? Start it without")

func probeItem() memcache.Item {
	return memcache.Item{Key: keyPrefix + "probe/" + rand.Text(), Value: []byte("coord-probe 1\n"), Expiration: 10}
}

// tryCAS swaps an item of its own, and then once more with the id of before, which has to fail.
func tryCAS(client *memcache.Client) error {
	probe := probeItem()
	if err := client.Add(&probe); err != nil {
		return notSent(err)
	}
	item, err := client.Get(probe.Key)
	if err != nil {
		return notSent(err)
	}
	first := *item
	item.Expiration = 10
	if err := client.CompareAndSwap(item); err != nil && !answer(err) {
		return notSent(err)
	} else if err != nil || first.CasID == 0 {
		return fmt.Errorf("%w: %w", driver.ErrUnsupported, errCAS)
	}
	first.Expiration = atOnce
	switch err := client.CompareAndSwap(&first); {
	case err == nil, err == memcache.ErrCacheMiss:
		return fmt.Errorf("%w: %w", driver.ErrUnsupported, errCAS)
	case err != memcache.ErrCASConflict:
		return notSent(err)
	}
	return nil
}
