package memcached

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/bradfitz/gomemcache/memcache"
)

// errNoMeta: the server does not know the meta commands.
var errNoMeta = errors.New("memcached: the server has no meta commands")

// full reports whether the server has refused a command because it has no room for an item.
func full(err error) bool {
	return err != nil && strings.Contains(err.Error(), `"SERVER_ERROR out of memory`)
}

// replaceInPlace is replace on a full server, which has refused a cas: it needs room for the new item
// beside the old one. A renewal by the same TTL and an unlock change nothing but the item's expiry. The meta command md
// does that in place, and compares the cas id as cas does. The time in the value, for people to read,
// stays behind then. Any other change is refused.
func (c *call) replaceInPlace(n name, fn change, refused error) (value, error) {
	for range maxRounds {
		item, err := c.get(n.key(lockKind))
		if err != nil {
			return value{}, absent(err)
		}
		old, err := parseValue(item.Value, n)
		if err != nil {
			return value{}, err
		}
		next, expiration, err := fn(old, c.b.clock())
		if err != nil {
			return value{}, err
		}
		same := next
		same.until = old.until
		if same != old {
			return value{}, refused
		}
		err = c.change(func() error { return c.expire(item, expiration) })
		switch {
		case err == nil:
			return next, nil
		case errors.Is(err, errNoMeta):
			return value{}, refused
		case err != memcache.ErrCASConflict:
			return value{}, absent(err)
		}
	}
	return value{}, errRounds
}

// expire sets when an item expires, if it is still the one that was read.
func (c *call) expire(item *memcache.Item, expiration int32) error {
	if told := c.conn.pool.told.Load(); told == nil || before(told.version, metaVersion) {
		return errNoMeta
	}
	text := fmt.Sprintf("md %s C%d", item.Key, item.CasID)
	if expiration != atOnce {
		// I keeps the item, with a new cas id. It marks it as stale, which only meta commands show.
		text += fmt.Sprintf(" I T%d", expiration)
	}
	var line string
	err := c.conn.raw(func(conn net.Conn, r *bufio.Reader) (err error) {
		line, err = command(conn, r, text+"\r\n")
		return err
	})
	if err != nil {
		return err
	}
	code, _, _ := strings.Cut(line, " ")
	switch code {
	case "HD", "OK": // OK with the option meta_response_old
		return nil
	case "EX":
		return memcache.ErrCASConflict
	case "NF":
		return memcache.ErrCacheMiss
	}
	return fmt.Errorf("%w: %.80q", errNoMeta, line)
}
