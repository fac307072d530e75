package memcached

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/coordgo/coord/driver"
)

const (
	// listKey is an item on each server: the list of servers that its clients have. Clients with
	// different lists place one key on different servers, so each refuses to grant beside another list.
	listKey = keyPrefix + "servers"
	// listLife is how long the item lasts after its last refresh. Clients refresh it three times in that
	// time. A pause of 40 s, of a client or a server, does not end it, and a list can be changed a minute
	// after the last client has gone.
	listLife   = time.Minute
	listHeader = "coord-servers 1"
	// anyName stands for the server of a list of one: it has all keys, whatever it is called.
	anyName = "*"
)

// ServersError refuses a client whose list of servers is not the one that other clients of the
// store use. Both would place some keys on different servers, and could hold one lock
// twice. It is an [driver.ErrInvalid], and temporary. Stop the clients of one list: it is forgotten a minute
// after the last of them.
type ServersError struct {
	Server string   // on which the other list was found
	Ours   []string // sorted
	Theirs []string // sorted; "*" is that server alone, by whatever name
}

func (e *ServersError) Error() string {
	return fmt.Sprintf("memcached: clients with another list of servers use %s: this client has %s, they have %s: every client needs the same list",
		e.Server, strings.Join(e.Ours, ","), strings.Join(e.Theirs, ","))
}

// Is makes errors.Is(err, driver.ErrInvalid) true.
func (e *ServersError) Is(target error) bool { return target == driver.ErrInvalid }

// Temporary is true: the clients of the other list may go.
func (e *ServersError) Temporary() bool { return true }

// formatList writes a list. The order of the servers does not matter to where keys are.
func formatList(addrs []string) string {
	if len(addrs) == 1 {
		addrs = []string{anyName}
	}
	sorted := slices.Clone(addrs)
	slices.Sort(sorted)
	return listHeader + " " + strings.Join(sorted, " ") + "\n"
}

// parseList reads what formatList wrote.
func parseList(text string) ([]string, error) {
	head, rest, ok := strings.Cut(strings.TrimSuffix(text, "\n"), " ")
	version, names, named := strings.Cut(rest, " ")
	if addrs := strings.Split(names, " "); ok && named && head+" "+version == listHeader && formatList(addrs) == text {
		return addrs, nil
	}
	return nil, fmt.Errorf("%w: %s holds %.80q", driver.ErrCorrupt, listKey, text)
}

// lookAtList gives an error if the server of c has another list than ours, and reports whether it has ours.
func (c *call) lookAtList() (there bool, err error) {
	p := c.conn.pool
	item, err := c.read(listKey)
	if err == memcache.ErrCacheMiss {
		return false, nil
	}
	if err != nil {
		return false, notSent(err)
	}
	if string(item.Value) == p.list {
		return true, nil
	}
	theirs, err := parseList(string(item.Value))
	if err != nil {
		return false, err
	}
	other := &ServersError{Server: p.addr, Ours: p.addrs, Theirs: theirs}
	p.seen.set(other, time.Now().Add(p.life))
	return false, other
}

// claimList proves that the server of c has our list, and that it keeps it for the life of a list from now.
func (c *call) claimList() error {
	p := c.conn.pool
	for range maxRounds {
		there, err := c.lookAtList()
		if err != nil {
			return err
		}
		sent := time.Now()
		expiration := lasting(ceilSeconds(p.life), sent)
		if !there {
			err = c.client.Add(&memcache.Item{Key: listKey, Value: []byte(p.list), Expiration: expiration})
			if err == nil {
				p.seen.set(nil, sent.Add(p.life))
				return nil
			}
		} else if err = c.client.Touch(listKey, expiration); err == nil {
			// The item that was touched could be one that another client wrote since we looked. If it
			// is ours now, it was touched, or added later.
			if there, err = c.lookAtList(); there {
				p.seen.set(nil, sent.Add(p.life))
				return nil
			}
		}
		c.noteBroken(err)
		if err != nil && !answer(err) {
			return notSent(err)
		}
	}
	return errRounds
}

// enter probes the server of c before its first use, and writes the list to it.
func (c *call) enter() error {
	if err := c.probe(); err != nil {
		return err
	}
	return c.claimList()
}

// admit lets the call make new locks, or take permits, on its server: if the server was probed, has our
// list, and no other server of ours was last seen with another. It makes requests only at the first use of a
// server, after the loss of a connection to it, and when the list was not refreshed for its whole life.
func (c *call) admit() error {
	if c.conn == nil {
		return nil // behind an application's client the servers cannot be seen
	}
	for _, p := range c.b.pools.byAddr {
		if _, other := p.seen.get(); other != nil {
			return other
		}
	}
	if ours, _ := c.conn.pool.seen.get(); ours {
		return nil
	}
	return c.enter()
}

// seen is what was last seen of the list on one server. It counts for the life of the list.
type seen struct {
	mu    sync.Mutex
	until time.Time     // on the monotonic clock, which stops while the machine sleeps
	wall  time.Time     // the same on the wall clock, which may be set; what comes first counts
	other *ServersError // nil: the list is ours
}

func (s *seen) set(other *ServersError, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.other, s.until, s.wall = other, until, until.Round(0)
}

// forget: the server may have restarted, and have lost its list.
func (s *seen) forget() { s.set(nil, time.Time{}) }

// get reports whether the list was ours, or gives whose it was.
func (s *seen) get() (ours bool, other *ServersError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); !now.Before(s.until) || !now.Before(s.wall) {
		return false, nil
	}
	return s.other == nil, s.other
}
