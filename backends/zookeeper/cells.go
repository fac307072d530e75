package zookeeper

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
)

// record is what the node of a limit holds: the time on the leader's clock from
// which it says no more than its absence, and the state.
//
// The record is the data of a child of the limit's node, the incarnation, whose random name is not used
// again. Versions start anew with each node, and a request can stall on its way: one that names an
// incarnation that was removed meanwhile finds no node, whatever version its successor has.
type record struct {
	until int64 // Unix µs
	state []byte
}

const recordHead = 1 + 8

// recordVersion is the first byte.
const recordVersion = 1

func (r record) bytes() []byte {
	b := make([]byte, 0, recordHead+len(r.state))
	b = append(b, recordVersion)
	b = binary.BigEndian.AppendUint64(b, uint64(r.until))
	return append(b, r.state...)
}

// parseRecord reads a record; ErrCorrupt for anything else.
func parseRecord(b []byte) (record, limits.State, error) {
	var s limits.State
	if len(b) < recordHead || b[0] != recordVersion || b[1] >= 0x80 {
		return record{}, s, fmt.Errorf("%w: %d bytes, not the state of a limit", driver.ErrCorrupt, len(b))
	}
	r := record{until: int64(binary.BigEndian.Uint64(b[1:])), state: b[recordHead:]}
	return r, s, s.UnmarshalBinary(r.state)
}

// cell is what this client knows of a limit's node. Who has the turn may use it: one
// of its writers is under way at a time, and what is asked for meanwhile is decided
// together, next.
type cell struct {
	path string
	turn chan struct{}

	met     bool   // a server has told of the node, or it was written
	known   bool   // the rest is what a server said last
	node    string // the incarnation, as last seen; "" if there was none
	version int32
	record  record
	rivals  bool // another client wrote it meanwhile

	// guarded by cellCache.mu
	refs    int
	changes []*change // that wait
	busy    bool      // a goroutine sees to them
}

// cellCache is the cells of one client.
type cellCache struct {
	mu    sync.Mutex
	cells map[string]*cell

	rtt ewma

	guess atomic.Int32 // whether limits that were met lately were there: see expectsNew
}

// maxCells bounds what is remembered: beyond it a decision may cost a read more.
const maxCells = 16_384

// expectsNew guesses whether a limit that this client meets for the first time has no node yet. Then making
// it is the first request, and otherwise reading it: a wrong guess costs one request more. The guess is
// what was found of late.
func (cc *cellCache) expectsNew() bool { return cc.guess.Load() >= 0 }

// learnNew takes in what was found of a limit that was met for the first time.
func (cc *cellCache) learnNew(isNew bool) {
	n := cc.guess.Load()
	if isNew {
		n = min(n+1, maxGuess)
	} else {
		n = max(n-1, -maxGuess-1)
	}
	cc.guess.Store(n) // of two that come at once one may be lost
}

// maxGuess is how many findings of one kind it takes at most to change the guess.
const maxGuess = 2

func (cc *cellCache) enter(node string) *cell {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	c := cc.cells[node]
	if c == nil {
		if cc.cells == nil {
			cc.cells = make(map[string]*cell)
		}
		for name, old := range cc.cells { // any one that is not in use
			if len(cc.cells) < maxCells {
				break
			}
			if old.refs == 0 {
				delete(cc.cells, name)
			}
		}
		c = &cell{path: node, turn: make(chan struct{}, 1)}
		cc.cells[node] = c
	}
	c.refs++
	return c
}

func (cc *cellCache) leave(c *cell) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	c.refs--
}

// ewma is a moving average of round trips.
type ewma struct {
	mu sync.Mutex
	d  time.Duration
}

func (e *ewma) add(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.d == 0 {
		e.d = d
	}
	e.d += (d - e.d) / 8
}

func (e *ewma) value() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.d
}

// takeTurn waits for the turn of a cell.
func (b *backend) takeTurn(ctx context.Context, c *cell) error {
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", driver.ErrNotSent, ctx.Err())
	case <-b.closing:
		return driver.ErrClosed
	}
}

// answer is a node as a server showed it.
type answer struct {
	node string
	data []byte
	stat *zk.Stat
}

// look reads a limit: the incarnation that was seen last, or the one that has followed it. ErrNoNode
// says that there is none.
func (b *backend) look(dir, node string) (answer, error) {
	for range 10 {
		if node == "" {
			var err error
			if node, err = b.incarnation(dir); err != nil {
				return answer{}, err
			}
		}
		data, stat, err := b.conn.Get(node)
		if !errors.Is(err, zk.ErrNoNode) {
			return answer{node, data, stat}, err
		}
		node = ""
	}
	return answer{}, fmt.Errorf("%w: node %s is removed as often as it is made", driver.ErrNotSent, dir)
}

// incarnation finds the only child of a limit's node. Both are made and removed together.
func (b *backend) incarnation(dir string) (node string, err error) {
	names, stat, err := b.conn.Children(dir)
	if err != nil {
		return "", err
	}
	if len(names) != 1 || len(names[0]) != incarnationLen || stat.DataLength != 0 {
		return "", fmt.Errorf("%w: node %s has the children %.100q and %d bytes of data: want one incarnation of a limit",
			driver.ErrCorrupt, dir, names, stat.DataLength)
	}
	return dir + "/" + names[0], nil
}

// incarnationLen is how many hexadecimal digits the name of an incarnation has: 64 random bits, of the few that one
// limit ever has.
const incarnationLen = 16

func newIncarnation(dir string) (node string) {
	return fmt.Sprintf("%s/%0*x", dir, incarnationLen, rand.Uint64())
}

// saw takes in what a server said of the node.
func (c *cell) saw(a answer, err error) error {
	c.known = false
	switch {
	case errors.Is(err, zk.ErrNoNode):
		c.known, c.met, c.node, c.record = true, true, "", record{}
		return nil
	case err != nil:
		return err
	}
	r, _, err := parseRecord(a.data)
	if err != nil {
		return fmt.Errorf("node %s: %w", a.node, err)
	}
	c.known, c.met, c.node, c.version, c.record = true, true, a.node, a.stat.Version, r
	return nil
}

// errConflict is a write of another client that came first.
var errConflict = errors.New("zookeeper: another client's write came first")

// write stores r in place of what is known of the cell.
func (b *backend) write(c *cell, r record) error {
	sent := time.Now()
	stat, node := &zk.Stat{}, c.node
	var err error
	if node != "" {
		stat, err = b.conn.Set(node, r.bytes(), c.version)
	} else {
		node = newIncarnation(c.path)
		err = b.makeLimit(c.path, node, r.bytes())
	}
	c.known, c.met = false, true
	switch {
	case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrNoNode):
		return errConflict
	case err != nil:
		return classify(err)
	}
	came := time.Now()
	b.cells.rtt.add(came.Sub(sent))
	if stat.Mtime != 0 {
		b.clock.learn(sent, came, stat.Mtime)
	}
	c.known, c.node, c.version, c.record = true, node, stat.Version, r
	return nil
}

// makeLimit makes the node of a limit and its incarnation, and where need be what they are under. It makes
// requests one after the other.
func (b *backend) makeLimit(dir, node string, data []byte) error {
	_, err := b.conn.Multi(b.limitOps(dir, node, data)...)
	if errors.Is(err, zk.ErrNoNode) {
		if err = b.makeDir(path.Dir(dir)); err == nil {
			_, err = b.conn.Multi(b.limitOps(dir, node, data)...)
		}
	}
	return err
}

// limitOps are the parts of a transaction that make a limit.
func (b *backend) limitOps(dir, node string, data []byte) []any {
	return []any{
		&zk.CreateRequest{Path: dir, Data: []byte{}, Acl: b.acl},
		&zk.CreateRequest{Path: node, Data: data, Acl: b.acl},
	}
}
