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
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/coordgo/coord/driver"
)

// minVersion is the oldest memcached whose cas and expiry are as the package comment says.
var minVersion = [3]int{1, 4, 23}

// probeServers asks each server for its version and settings, and tries compare-and-swap on it.
func (b *backend) probeServers(ctx context.Context, s settings, dial dialer) error {
	for _, addr := range s.url.Hosts {
		about, err := b.probeServer(ctx, addr, s.timeout, dial)
		if err != nil {
			return fmt.Errorf("%s: %w", addr, err)
		}
		if b.info.Server == "" {
			b.info.Server = strings.TrimSpace("memcached " + about.version)
		}
		b.note(len(s.url.Hosts), about)
	}
	return nil
}

// probeServer looks at one server. It has to be 1.4.23 or later with compare-and-swap, and should
// not evict.
func (b *backend) probeServer(ctx context.Context, addr string, timeout time.Duration, dial dialer) (about, error) {
	one := &backend{closing: make(chan struct{}), lanes: newLanes(1, timeout, []string{addr}, dial)}
	defer one.Close()
	if err := one.probeCAS(ctx); err != nil {
		return about{}, err
	}
	a, err := inquire(ctx, addr, timeout, dial)
	if ctx.Err() != nil {
		return about{}, fmt.Errorf("%w: %w", driver.ErrNotSent, ended(ctx))
	}
	if err != nil {
		return about{}, notSent(err)
	}
	if old(a.version) {
		return about{}, fmt.Errorf("%w: memcached %s: want %d.%d.%d or later", driver.ErrUnsupported, a.version, minVersion[0], minVersion[1], minVersion[2])
	}
	switch a.settings["evictions"] {
	case "on":
		b.log.WarnContext(ctx, "memcached: the server evicts items when its memory is full: locks and limits can be lost before their time; give coord a server of its own, with -M", "server", addr)
	case "":
		b.log.WarnContext(ctx, "memcached: the server does not tell its settings: whether it evicts is not checked", "server", addr)
	}
	return a, nil
}

// about is what a server says of itself; what it does not say is "", or not there.
type about struct {
	version  string
	settings map[string]string
}

// inquire asks on a connection of its own: gomemcache has no stats.
func inquire(ctx context.Context, addr string, timeout time.Duration, dial dialer) (a about, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := dial.dial(ctx, "tcp", addr)
	if err != nil {
		return a, err
	}
	defer conn.Close()
	err = within(ctx, conn, func() error {
		r := bufio.NewReader(conn)
		line, err := command(conn, r, "version\r\n")
		if err != nil {
			return err
		}
		a.version, _ = strings.CutPrefix(line, "VERSION ")
		a.settings, err = readSettings(conn, r)
		return err
	})
	return a, err
}

// readSettings reads them. A server that does not tell answers with one line of an error.
func readSettings(conn net.Conn, r *bufio.Reader) (settings map[string]string, err error) {
	settings = make(map[string]string)
	line, err := command(conn, r, "stats settings\r\n")
	for err == nil {
		rest, ok := strings.CutPrefix(line, "STAT ")
		if !ok {
			return settings, nil
		}
		name, value, _ := strings.Cut(rest, " ")
		settings[name] = value
		line, err = r.ReadString('\n')
		line = strings.TrimRight(line, "\r\n")
	}
	return settings, err
}

// old reports whether a version is before minVersion. One that cannot be read is not.
func old(version string) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 3 {
		return false
	}
	for i, want := range minVersion {
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
	_, err := fly(ctx, b, name{}, func(c *call) (struct{}, error) {
		return struct{}{}, tryCAS(c.client)
	})
	return err
}

// errCAS is why a server is refused.
var errCAS = errors.New("compare-and-swap does not work: was memcached started with -C? Start it without")

// tryCAS swaps an item of its own, and then once more with the id of before, which has to fail.
func tryCAS(client *memcache.Client) error {
	key := keyPrefix + "probe/" + rand.Text()
	if err := client.Add(&memcache.Item{Key: key, Value: []byte("coord-probe 1\n"), Expiration: 10}); err != nil {
		return notSent(err)
	}
	item, err := client.Get(key)
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
