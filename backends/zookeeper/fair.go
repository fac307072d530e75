package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"
)

// Package coord hands a hold from one goroutine of a client to the next without asking the
// store, unless a fair waiter is behind it in line. So a fair waiter tells those before it
// that it has come: it rings.
//
// Each client has a doorbell, an ephemeral node that it watches. What is written there says in which
// queue somebody fair has come, and by which transaction. It counts for the client's nodes that are
// older, which are those before the fair one; a younger node is behind it, and overtakes nobody. So
// nothing has to be taken back when the fair one leaves, and a ring that comes late does no harm.
//
// The names of nodes have the box of their client in them. That is how a waiter knows where
// to ring.

// bell is what this client knows of fair waiters behind its own nodes. backend.mu guards it.
type bell struct {
	fn     func(key string)
	grants int  // up to listenFrom
	heard  bool // the doorbell is watched, and was read since it rang last
	// Of a node that was made by this transaction or before it is not known whether somebody
	// fair is behind it.
	blind int64
	rings map[string]int64 // the last fair waiter by key, as far as we were told
}

// listenFrom is the grant from which on a client watches its doorbell: one that locks once
// does not.
const listenFrom = 2

// maxRings bounds what a client remembers. With one more it forgets all, and hands nothing
// over that is as old as what it forgot.
const maxRings = 256

// NotifyFair implements driver.FairNotifier.
func (b *backend) NotifyFair(fn func(key string)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bell.fn = fn
}

// fairBehind reports whether somebody fair is in line behind the node of a hold, or may be.
// backend.mu is held.
func (b *backend) fairBehind(key string, token int64) bool {
	return b.conn.State() != zk.StateHasSession || b.bell.mayHaveRung(key, token)
}

func (f *bell) mayHaveRung(key string, token int64) bool {
	return !f.heard || token <= f.blind || f.rings[key] > token
}

// note remembers a ring.
func (f *bell) note(key string, by int64) {
	if _, known := f.rings[key]; !known && len(f.rings) >= maxRings {
		for _, r := range f.rings {
			f.blind = max(f.blind, r)
		}
		f.rings = nil
	}
	if f.rings == nil {
		f.rings = make(map[string]int64)
	}
	f.rings[key] = max(f.rings[key], by)
}

// rung takes in that a fair waiter is in the queue of key, whose node was made by a transaction.
func (b *backend) rung(key string, by int64) {
	b.mu.Lock()
	b.bell.note(key, by)
	fn := b.bell.fn
	b.mu.Unlock()
	if fn != nil {
		fn(key)
	}
}

// blinded takes in that rings may have been lost, up to a transaction. What this client
// holds is not handed over any more.
func (b *backend) blinded(by int64, heard bool) {
	b.mu.Lock()
	b.bell.blind, b.bell.heard = max(b.bell.blind, by), heard
	b.mu.Unlock()
	b.tellHeld()
}

// tellHeld says of all that this client holds that somebody fair may wait.
func (b *backend) tellHeld() {
	b.mu.Lock()
	fn := b.bell.fn
	var keys []string
	for name, e := range b.entries {
		if e.node != "" && fn != nil && !b.closed {
			keys = append(keys, name.key)
		}
	}
	b.mu.Unlock()
	for _, key := range keys {
		fn(key)
	}
}

// A fair waiter's side.

// fairBox is in the names of nodes that are waited with fairly, instead of a client's box. Such a
// hold is not handed over, and nobody rings for it.
const fairBox = "00000000"

// boxesBefore are the boxes of the clients with nodes before own, each once.
func boxesBefore(children []string, own string) (boxes []string) {
	self, ok := parseChild(own)
	for _, name := range children {
		c, ours := parseChild(name)
		if ok && ours && c.before(self) && c.box != fairBox && !slices.Contains(boxes, c.box) {
			boxes = append(boxes, c.box)
		}
	}
	return boxes
}

// ringsAtOnce bounds how many doorbells are rung at the same time.
const ringsAtOnce = 64

// ring tells those before a fair waiter, once: a request for each client, all at the same time,
// because a client that has no doorbell would fail a transaction.
func (a *attempt) ring(ctx context.Context, boxes []string) error {
	if !a.r.Fair || a.rung {
		return nil
	}
	data := ringData(a.e.key, a.t.token)
	for some := range slices.Chunk(boxes, ringsAtOnce) {
		errs := make([]error, len(some))
		var ringing sync.WaitGroup
		for i, box := range some {
			if box == a.b.box {
				a.b.rung(a.e.key, a.t.token)
				continue
			}
			ringing.Go(func() {
				errs[i] = a.b.run(ctx, func() error {
					_, err := a.b.conn.Set(a.b.doorbell(box), data, -1)
					if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNoAuth) {
						return nil // nobody listens, or not to us
					}
					return err
				}, nil)
			})
		}
		ringing.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	a.rung = true
	return nil
}

// ringHeader begins what is written at a doorbell.
const ringHeader = "coord-fair 1 zxid="

func ringData(key string, by int64) []byte {
	return fmt.Appendf(nil, "%s%d key=%s", ringHeader, by, key)
}

// readRing reads it back.
func readRing(data []byte) (key string, by int64, ok bool) {
	rest, ok := strings.CutPrefix(string(data), ringHeader)
	digits, key, found := strings.Cut(rest, " key=")
	by, err := strconv.ParseInt(digits, 10, 64)
	return key, by, ok && found && err == nil && key != "" && by > 0
}
