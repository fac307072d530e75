package zookeeper

import "strings"

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
