package zookeeper

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// wire is everything between a zk.Conn of our own and the network. The client library
// leaves us to see to these things:
//
//   - it does not tell the session timeout that the server granted: wire reads it in
//     the reply to the connect request;
//   - it waits for that reply for several session timeouts: wire bounds it;
//   - it waits for any other answer for two thirds of the session: wire bounds that too;
//   - it goes to the servers in the order of its host provider: wire shuffles them, and passes
//     over one that did not answer a moment ago;
//   - between attempts at the only server it sleeps for a second: wire is its
//     host provider, and decides how long;
//   - a server that lost its data refuses, for ever, a client that has seen later
//     transactions: once the session must have ended, wire no longer tells;
//   - on a new connection it asks for its watches again, as of the transaction that
//     it looks up while answers may already come: wire holds these back;
//   - it does not close the connection on which it learned that its session expired.
type wire struct {
	hosts []string
	tls   *tls.Config
	want  time.Duration // the session timeout asked for
	start time.Time
	// patience is for how long from start a session is tried for, while servers are
	// slow and the store is not open.
	patience time.Duration
	watching func() bool // whether there are watches
	// shortened is told that a server has resumed the session for less time than before.
	shortened func()
	// opened is told of each connection with a session, and when it was asked for.
	opened func(session int64, sent time.Time)
	ctx    context.Context
	quit   context.CancelFunc

	mu       sync.Mutex
	at       int         // of hosts: the one that was given last
	silent   []time.Time // of each host: until when it is passed over
	granted  time.Duration
	ready    bool      // the store is open
	slow     bool      // a failure since then was one that may pass
	failures int       // since a session was last established
	err      error     // of the last of these
	down     time.Time // since when there is no connection; zero: there is one
	conn     *wireConn
}

// The pauses between attempts to connect, once every host was tried.
const (
	minRedial = 5 * time.Millisecond
	maxRedial = 50 * time.Millisecond
)

func newWire(hosts []string, config *tls.Config, want, patience time.Duration) *wire {
	now := time.Now()
	hosts = slices.Clone(hosts)
	rand.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] }) // clients spread over the servers
	w := &wire{
		hosts: hosts, tls: config, want: want, start: now, patience: patience, granted: want, down: now,
		at: len(hosts) - 1, silent: make([]time.Time, len(hosts)),
	}
	w.ctx, w.quit = context.WithCancel(context.Background())
	return w
}

// Init, Len, Next and Connected make wire a zk.HostProvider. Names are resolved at
// each attempt, since addresses change.
func (w *wire) Init([]string) error { return nil }

// Len is the number of hosts.
func (w *wire) Len() int { return len(w.hosts) }

// Connected does nothing: connected does it.
func (w *wire) Connected() {}

// Next gives the next host, after a pause where all were tried in vain. It
// says that a round is over, upon which the library looks whether it was closed, only
// then: it would sleep for a second too.
func (w *wire) Next() (host string, retryStart bool) {
	w.mu.Lock()
	w.at = w.choose(time.Now())
	host = w.hosts[w.at]
	var pause time.Duration
	if rounds := w.failures / len(w.hosts); rounds > 0 {
		pause = min(minRedial<<min(rounds, 10), maxRedial)
	}
	w.mu.Unlock()
	if pause > 0 {
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-w.ctx.Done():
		}
		t.Stop()
	}
	return host, w.ctx.Err() != nil
}

// choose gives the host after the last that is not passed over. If all are, it gives the one that has been for
// longest. w.mu is held.
func (w *wire) choose(now time.Time) int {
	best := (w.at + 1) % len(w.hosts)
	for i := range w.hosts {
		host := (w.at + 1 + i) % len(w.hosts)
		if !now.Before(w.silent[host]) {
			return host
		}
		if w.silent[host].Before(w.silent[best]) {
			best = host
		}
	}
	return best
}

// passOver notes that the host that was given last does not answer. It accepts connections nevertheless if it hangs:
// while the others elect a leader, and refuse, each attempt at it would take as long as a handshake may. w.mu
// is held.
func (w *wire) passOver() { w.silent[w.at] = time.Now().Add(w.want / 3) }

// handshake is how long connecting to one host may take: all of them together, a
// third of the session, which is what is left of it when the library notices that a
// connection is silent. Until the store is open there is nothing to save, and every
// round has twice as long as the one before: a busy server is found in the end.
func (w *wire) handshake() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := max(w.want/3/time.Duration(len(w.hosts)), minHandshake)
	if !w.ready {
		d <<= min(w.failures/len(w.hosts), 10)
	}
	return min(d, maxHandshake)
}

const (
	minHandshake = 50 * time.Millisecond
	maxHandshake = 5 * time.Second
)

// dial is a zk.Dialer.
func (w *wire) dial(network, address string, _ time.Duration) (net.Conn, error) {
	w.mu.Lock()
	old := w.conn
	w.mu.Unlock()
	if old != nil {
		_ = old.Close() // closed before, as a rule
	}
	limit := time.Now().Add(w.handshake())
	ctx, cancel := context.WithDeadline(w.ctx, limit)
	defer cancel()
	var c net.Conn
	var err error
	if w.tls != nil {
		if c, err = (&tls.Dialer{Config: w.configFor(address)}).DialContext(ctx, network, address); err != nil {
			err = fmt.Errorf("TLS handshake: %w", err) // or what comes before it
		}
	} else {
		c, err = (&net.Dialer{}).DialContext(ctx, network, address)
	}
	if err != nil {
		w.failed(err)
		return nil, err
	}
	wc := &wireConn{Conn: c, w: w, limit: limit}
	w.mu.Lock()
	w.conn = wc
	w.mu.Unlock()
	if w.ctx.Err() != nil {
		_ = wc.Close()
	}
	return wc, nil
}

// configFor is the TLS configuration for one host.
func (w *wire) configFor(address string) *tls.Config {
	config := w.tls.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(address) // hosts have ports
	}
	return config
}

// failed notes that no session came of an attempt to connect.
func (w *wire) failed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures++
	w.err = err
	w.slow = w.slow || passing(err)
	if timedOut(err) {
		w.passOver()
	}
}

func timedOut(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// passing reports whether a failure to connect is one of a server that is there, and is
// busy or in an election.
func passing(err error) bool {
	return timedOut(err) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
}

// connected notes an established session that was asked for at sent, and ends what an earlier one, or the same,
// had promised for longer.
func (w *wire) connected(granted time.Duration, session int64, sent time.Time) {
	w.mu.Lock()
	shorter := granted < w.granted
	w.failures, w.err, w.down, w.granted = 0, nil, time.Time{}, granted
	w.slow, w.silent[w.at] = false, time.Time{}
	w.mu.Unlock()
	w.opened(session, sent)
	if shorter {
		w.shortened()
	}
}

// serves notes that the store is open: there may be holds now, whose session is not to
// be lost by patience.
func (w *wire) serves() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ready = true
}

// lost notes that c is closed.
func (w *wire) lost(c *wireConn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn == c && w.down.IsZero() {
		w.down = time.Now()
	}
}

// unreachable says why there is no connection, once every host was tried; nil before. Until
// the store is open there is patience with servers that are slow.
func (w *wire) unreachable() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failures < len(w.hosts) || !w.ready && w.slow && time.Since(w.start) < w.patience {
		return nil
	}
	return w.err
}

// because adds to the error of a wait for a session why the last attempt at one has failed.
func (w *wire) because(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil || errors.Is(err, w.err) {
		return err
	}
	return fmt.Errorf("%w: the last attempt to connect: %w", err, w.err)
}

// timeout is the session timeout that the server granted.
func (w *wire) timeout() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.granted
}

// over reports whether the session has certainly ended, unless no server was there
// to end it.
func (w *wire) over() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.down.IsZero() && time.Since(w.down) > w.granted
}

// close ends every attempt to connect.
func (w *wire) close() {
	w.quit()
	if c := w.current(); c != nil && !c.ready() {
		_ = c.Close()
	}
}

// cut breaks the connection.
func (w *wire) cut() {
	if c := w.current(); c != nil {
		_ = c.Close()
	}
}

func (w *wire) current() *wireConn {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.conn
}

// wireConn is a connection. The library writes one whole request at a time, and reads
// in one goroutine.
type wireConn struct {
	net.Conn
	w     *wire
	limit time.Time // of the handshake

	reply []byte // of the handshake, as far as it was read; Read's

	mu     sync.Mutex
	wanted time.Time     // read deadline of the library
	silent time.Time     // until when an answer has to come; zero: nothing was sent since the last
	sent   time.Time     // the connect request; zero: it was not
	shaken bool          // the handshake is over
	asked  bool          // a request that has an answer
	again  chan struct{} // closed once the library asks for its watches; nil: it is not about to
	once   sync.Once
}

const (
	opPings      = 11
	opAddAuth    = 100
	opAddWatches = 101
	// connectReply is how long the part of the reply is that we read: its length,
	// the protocol's version, the timeout and the session.
	connectReply = 4 + 4 + 4 + 8
)

func (c *wireConn) ready() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shaken
}

// Write sends a request.
func (c *wireConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	first := c.sent.IsZero()
	if first {
		c.sent = time.Now()
	}
	c.mu.Unlock()
	switch {
	case first && len(b) >= 16 && c.w.over():
		// The transaction seen last follows length and version.
		b = slices.Clone(b)
		clear(b[8:16])
	case !first && len(b) >= 12:
		c.sends(int32(binary.BigEndian.Uint32(b[8:])))
	}
	return c.Conn.Write(b)
}

// sends notes a request.
func (c *wireConn) sends(op int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.awaits()
	switch op {
	case opPings, opAddAuth:
	case opAddWatches:
		if c.again != nil {
			close(c.again)
			c.again = nil
		}
	default:
		c.asked = true
	}
}

// holdBack waits until the library has asked for its watches, if it is about to.
func (c *wireConn) holdBack() {
	c.mu.Lock()
	asked, again := c.asked, c.again
	c.mu.Unlock()
	if !asked || again == nil {
		return
	}
	if c.w.watching() {
		select {
		case <-again:
		case <-time.After(maxHoldBack):
		case <-c.w.ctx.Done():
		}
	}
	c.mu.Lock()
	c.again = nil
	c.mu.Unlock()
}

// maxHoldBack is how long answers are held back at most.
const maxHoldBack = 50 * time.Millisecond

// Read receives.
func (c *wireConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.holdBack()
	if c.ready() {
		c.mu.Lock()
		if n > 0 {
			c.heard()
		}
		c.mu.Unlock()
		c.giveUp(err)
		return n, err
	}
	c.reply = append(c.reply, b[:n]...)
	timeout, session, ok := parseConnectReply(c.reply)
	switch {
	case !ok && err != nil:
		c.w.failed(err)
	case ok && session != 0:
		c.mu.Lock()
		sent := c.sent
		c.mu.Unlock()
		c.w.connected(timeout, session, sent)
	}
	if ok {
		c.mu.Lock()
		c.shaken, c.reply = true, nil
		if c.w.watching() {
			c.again = make(chan struct{})
		}
		c.mu.Unlock()
	}
	return n, err
}

// parseConnectReply reads the timeout and the session of a connect reply, once
// enough of it is there.
func parseConnectReply(b []byte) (timeout time.Duration, session int64, ok bool) {
	if len(b) < connectReply {
		return 0, 0, false
	}
	ms := int32(binary.BigEndian.Uint32(b[8:]))
	return time.Duration(ms) * time.Millisecond, int64(binary.BigEndian.Uint64(b[12:])), true
}

// Close breaks the connection.
func (c *wireConn) Close() error {
	err := error(nil)
	c.once.Do(func() {
		err = c.Conn.Close()
		c.w.lost(c)
	})
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
