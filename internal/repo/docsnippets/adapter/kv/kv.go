// Package kv is a small key-value store on a TCP port: what an adapter's author
// has before the work begins. It keeps values in memory, gives each write a revision, and
// forgets a value when its time is over.
package kv

import (
	"encoding/gob"
	"net"
	"sync"
	"time"
)

// Request asks for one thing: Op is "get", "swap" or "clear".
type Request struct {
	Op, Key  string
	Value    []byte        // swap: the new value; none removes the key
	Revision uint64        // swap: what the key must have now; 0: it must not be there
	TTL      time.Duration // swap: how long the value is kept
}

// Reply is the answer. Revision is the key's, 0 if there is no such key.
type Reply struct {
	Value    []byte
	Revision uint64
	TTL      time.Duration // get: how much longer the value is kept
	Now      time.Time     // get: the server's clock
	Swapped  bool
}

type item struct {
	value    []byte
	revision uint64
	dies     time.Time
}

// Server keeps the values.
type Server struct {
	mu    sync.Mutex
	items map[string]item
	last  uint64
}

// NewServer makes an empty server. Its revisions go on from those of the one before it, because
// they begin at the time.
func NewServer() *Server {
	return &Server{items: make(map[string]item), last: uint64(time.Now().UnixMicro())}
}

// Serve answers every connection that l accepts, until l is closed.
func (s *Server) Serve(l net.Listener) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go s.talk(conn)
	}
}

func (s *Server) talk(conn net.Conn) {
	defer conn.Close()
	in, out := gob.NewDecoder(conn), gob.NewEncoder(conn)
	for {
		var r Request
		if in.Decode(&r) != nil || out.Encode(s.answer(r)) != nil {
			return // the client has gone
		}
	}
}

func (s *Server) answer(r Request) Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	old := s.items[r.Key]
	if now.After(old.dies) {
		delete(s.items, r.Key)
		old = item{}
	}
	switch {
	case r.Op == "clear":
		clear(s.items)
	case r.Op == "swap" && r.Revision == old.revision && len(r.Value) == 0:
		delete(s.items, r.Key)
		return Reply{Swapped: true}
	case r.Op == "swap" && r.Revision == old.revision:
		s.last++
		s.items[r.Key] = item{r.Value, s.last, now.Add(r.TTL)}
		return Reply{Swapped: true, Revision: s.last}
	case r.Op == "get":
		return Reply{Value: old.value, Revision: old.revision, TTL: old.dies.Sub(now), Now: now}
	}
	return Reply{}
}
