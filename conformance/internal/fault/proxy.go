package fault

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Proxy is a TCP relay with faults, for any store at one TCP address. It knows nothing of the protocol.
type Proxy struct {
	target   string
	listener net.Listener
	read     readReply
	wg       sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed and renewed at every change
	closed  bool
	stalled [2]bool // by direction
	passing int     // requests that may pass before they stall; -1: all
	drop    bool
	refuse  bool
	delay   time.Duration
	pairs   map[*pair]struct{}
}

// readReply reads what comes next from the store, into buf if it fits, and tells whether it may be part of a reply.
type readReply func(server io.Reader, buf []byte) (data []byte, reply bool, err error)

func readBytes(from io.Reader, buf []byte) (data []byte, reply bool, err error) {
	n, err := from.Read(buf)
	return buf[:n], true, err
}

// direction of bytes through the proxy.
type direction int

const (
	request direction = iota
	reply
)

// pair is a connection of the client, and the connection to the store that continues it.
type pair struct {
	client, server net.Conn
	once           sync.Once
	dead           chan struct{}
}

func (p *pair) kill() {
	p.once.Do(func() {
		close(p.dead)
		// The connections are to break: how they end is of no interest.
		_ = p.client.Close()
		_ = p.server.Close()
	})
}

// NewProxy listens on a free port of the loopback interface and relays to target.
func NewProxy(target string) (*Proxy, error) { return newProxy(target, readBytes) }

func newProxy(target string, read readReply) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: target, listener: l, read: read, passing: -1, changed: make(chan struct{}), pairs: make(map[*pair]struct{})}
	p.wg.Go(p.accept)
	return p, nil
}

// Addr is where a client connects to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close breaks every connection and ends the proxy.
func (p *Proxy) Close() error {
	p.set(func() { p.closed = true })
	err := p.listener.Close()
	p.Reset()
	p.wg.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// StallRequests makes the bytes to the store wait until Heal.
func (p *Proxy) StallRequests() { p.set(func() { p.stalled[request] = true }) }

// StallAfter lets n more requests pass, and then does what StallRequests does. What the client sends at a time counts
// as one request.
func (p *Proxy) StallAfter(n int) { p.set(func() { p.passing = n }) }

// StallReplies makes the bytes from the store wait until Heal.
func (p *Proxy) StallReplies() { p.set(func() { p.stalled[reply] = true }) }

// DropReply throws away the next bytes from the store, and breaks their connection. Where a store says something
// before it has applied a request, as over HTTP/2, that may come too early; see NewHTTP2Proxy.
func (p *Proxy) DropReply() { p.set(func() { p.drop = true }) }

// Cut breaks every connection. New ones are accepted and closed at once.
func (p *Proxy) Cut() {
	p.set(func() { p.refuse = true })
	p.Reset()
}

// Delay makes every round trip slower, half of it each way.
func (p *Proxy) Delay(d time.Duration) { p.set(func() { p.delay = d }) }

// Heal ends every fault. Bytes that waited go on.
func (p *Proxy) Heal() {
	p.set(func() { p.stalled, p.passing, p.drop, p.refuse, p.delay = [2]bool{}, -1, false, false, 0 })
}

// Reset breaks every connection.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pr := range p.pairs {
		pr.kill()
	}
}

func (p *Proxy) set(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fn()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // Close closed it
		}
		p.wg.Go(func() { p.connect(client) })
	}
}

func (p *Proxy) connect(client net.Conn) {
	if p.refuses() {
		_ = client.Close() // as a network that is down would
		return
	}
	server, err := net.DialTimeout("tcp", p.target, 5*time.Second)
	if err != nil {
		_ = client.Close() // as a server that is down would
		return
	}
	pr := &pair{client: client, server: server, dead: make(chan struct{})}
	p.mu.Lock()
	if p.closed || p.refuse { // meanwhile
		pr.kill()
	}
	p.pairs[pr] = struct{}{}
	p.mu.Unlock()
	defer func() {
		pr.kill()
		p.mu.Lock()
		delete(p.pairs, pr)
		p.mu.Unlock()
	}()
	var wg sync.WaitGroup
	wg.Go(func() { p.pump(pr, request, client, server) })
	wg.Go(func() { p.pump(pr, reply, server, client) })
	wg.Wait()
}

// refuses reports whether a new connection is closed at once, without one to the store: a client that dials again and
// again costs no more than it must.
func (p *Proxy) refuses() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed || p.refuse
}

// pump relays one way. It continues to read while the way is stalled. What it has read reaches a store even if the
// client has gone by then, as with a network that is slow.
func (p *Proxy) pump(pr *pair, dir direction, from, to net.Conn) {
	buf, read := make([]byte, 64<<10), readBytes
	if dir == reply {
		read = p.read
	}
	for {
		data, ofReply, err := read(from, buf)
		if len(data) > 0 && dir == request {
			p.countRequest()
		}
		if len(data) > 0 && (!p.pass(pr, dir, ofReply) || !write(to, data)) {
			pr.kill()
			return
		}
		if err != nil {
			if dir == reply {
				pr.kill()
				return
			}
			p.halfClose(pr, to)
			return
		}
	}
}

// countRequest stalls the client's side once as many requests have passed as StallAfter allows.
func (p *Proxy) countRequest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.passing == 0:
		p.stalled[request] = true
	case p.passing > 0:
		p.passing--
	}
}

func write(to net.Conn, data []byte) bool {
	_, err := to.Write(data)
	return err == nil
}

// halfClose tells the store that the client has gone, once the way is open.
func (p *Proxy) halfClose(pr *pair, server net.Conn) {
	if p.pass(pr, request, false) {
		if c, ok := server.(*net.TCPConn); ok && c.CloseWrite() == nil {
			return
		}
	}
	pr.kill()
}

// pass waits until bytes may go on in that direction; false if they never do. Those of a reply may be dropped.
func (p *Proxy) pass(pr *pair, dir direction, ofReply bool) bool {
	var due time.Time
	for {
		p.mu.Lock()
		if dir == reply && ofReply && p.drop && !p.stalled[reply] {
			p.drop = false
			p.mu.Unlock()
			return false
		}
		if due.IsZero() {
			due = time.Now().Add(p.delay / 2) // half of it each way
		}
		stalled, changed := p.stalled[dir], p.changed
		p.mu.Unlock()
		wait := time.Until(due)
		if !stalled && wait <= 0 {
			return true
		}
		timer := time.NewTimer(max(wait, 0))
		if stalled {
			timer.Stop()
		}
		select {
		case <-changed:
		case <-timer.C:
		case <-pr.dead:
			timer.Stop()
			return false
		}
		timer.Stop()
	}
}
