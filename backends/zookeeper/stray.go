package zookeeper

import (
	"errors"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/driver"
)

// A stray is a node that a request without an answer may have made. The next attempt of its id, or Unlock, looks for it.

// find gives the node that an earlier request for the id has made in this session, and removes what else there is of it
// here. What is not found, no such request makes any more: servers take none of a connection that the session has left.
func (e *entry) find(session int64) (t ticket, err error) {
	b := e.b
	if !e.stray {
		return ticket{}, nil
	}
	names, err := b.list(e.dir, true)
	if err != nil {
		return ticket{}, err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, e.prefix()) {
			continue
		}
		node := e.dir + "/" + name
		ok, stat, err := b.conn.Exists(node)
		switch {
		case err != nil:
			return ticket{}, err
		case !ok || stat.EphemeralOwner != session:
		case stat.Version == 0 && t.path == "":
			t = ticket{path: node, session: session, token: stat.Czxid, found: true}
		default:
			if err := b.remove(node); err != nil {
				return ticket{}, err
			}
		}
	}
	e.stray = t.path != ""
	return t, nil
}

// clearStrays removes strays after Close, in the background: over the application's connection their session lives on.
func (b *backend) clearStrays() {
	b.mu.Lock()
	var all []*entry
	for _, e := range b.entries {
		e.refs++
		all = append(all, e)
	}
	b.mu.Unlock()
	b.background(func() {
		for _, e := range all {
			e.busy <- struct{}{} // a request that is under way ends with the connection at the latest
			e.clearStray()
			e.end()
		}
	})
}

// clearStray removes a stray: it asks until the server has answered, or there is no connection any more.
func (e *entry) clearStray() {
	b := e.b
	for pause := time.Millisecond; e.stray; pause = min(2*pause, 100*time.Millisecond) {
		if b.conn.State() == zk.StateHasSession {
			err := b.removeAny(e, 0)
			e.stray = err != nil && !errors.Is(err, driver.ErrNotHeld) && (!answered(err) || isRefusal(err))
		}
		if e.stray && !b.sleep(pause) {
			return
		}
	}
}
