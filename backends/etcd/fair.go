package etcd

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Package coord hands a hold from one goroutine of a client to the next without asking the
// store, unless a fair waiter is behind it in line. So a fair waiter tells those before it
// that it has come: it rings.
//
// Each client has a doorbell, a key of its own that it watches. What is put there says in which
// line somebody fair has come, and by which revision. It counts for the client's entries that are
// older, which are those before the fair one; a younger entry is behind it, and overtakes nobody. So
// nothing has to be taken back when the fair one leaves, and a ring that comes late does no harm. The
// key ends with the lease of whoever rang last.
//
// The leases of a client have its box in their ids. That is how a waiter, who sees the leases
// of those before it, knows where to ring.

// bell is what this client knows of fair waiters behind its own entries. backend.mu guards it.
type bell struct {
	fn     func(key string)
	grants int  // up to listenFrom
	heard  bool // the doorbell is watched
	// Of an entry that was made by this revision or before it is not known whether somebody
	// fair is behind it.
	blind  int64
	rings  map[string]int64 // the last fair waiter by key, as far as we were told
	pulse  time.Duration
	used   bool // somebody relied on it since the last look
	unsure bool // the server owes us a sign of life
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

// fairBehind reports whether somebody fair is in line behind e, or may be. backend.mu is held.
func (b *backend) fairBehind(e *entry) bool {
	f := &b.bell
	f.used = true
	return !f.heard || e.adopted || e.create <= f.blind || f.rings[e.key] > e.create
}

// countGrant counts, and has the doorbell watched when that is of use. backend.mu is held.
func (b *backend) countGrant() {
	f := &b.bell
	if f.fn == nil || f.grants >= listenFrom || b.life.Err() != nil {
		return
	}
	if f.grants++; f.grants == listenFrom {
		b.bg.Go(b.listen)
	}
}

// rung takes in that a fair waiter whose entry was made by a revision is in the line of key.
func (b *backend) rung(key string, revision int64) {
	b.mu.Lock()
	f := &b.bell
	if _, known := f.rings[key]; !known && len(f.rings) >= maxRings {
		for _, r := range f.rings {
			f.blind = max(f.blind, r)
		}
		f.rings = nil
	}
	if f.rings == nil {
		f.rings = make(map[string]int64)
	}
	f.rings[key] = max(f.rings[key], revision)
	fn := f.fn
	b.mu.Unlock()
	if fn != nil {
		fn(key)
	}
}

// blinded takes in that rings may have been lost, up to a revision. What this client
// holds is not handed over any more.
func (b *backend) blinded(revision int64, heard bool) {
	b.mu.Lock()
	f := &b.bell
	f.heard, f.blind = heard, max(f.blind, revision)
	fn := f.fn
	var keys []string
	for p, e := range b.entries {
		if e.state == held {
			keys = append(keys, p.key)
		}
	}
	b.mu.Unlock()
	for _, key := range keys {
		fn(key)
	}
}

// A fair waiter's side.

// fairMark is at the end of the name of an entry that is waited with fairly. Such a hold
// is not handed over, and nobody rings for it.
const fairMark = "f"

// survey notes which clients are to be told of w, whose entry was made by a revision: those of
// others at the store, our own at once.
func (b *backend) survey(w *waiter, key string, revision int64, line []*mvccpb.KeyValue) {
	w.surveyed = true
	seen, own := make(map[int64]bool), false
	for _, kv := range line {
		rec, err := readRecord(w.line, kv)
		box := rec.lease >> boxShift
		if err != nil || rec.released || rec.create >= revision || strings.HasSuffix(rec.name, fairMark) || seen[box] {
			continue
		}
		seen[box] = true
		if box == b.box {
			own = true
			continue
		}
		w.bells = append(w.bells, b.names.doorbell(box))
	}
	if own {
		b.rung(key, revision)
	}
}

// ring tells those before a fair waiter, in one request.
func (b *backend) ring(ctx context.Context, w *waiter) error {
	if !w.fair {
		return nil
	}
	if !w.surveyed {
		resp, err := b.kv.Get(ctx, w.line, clientv3.WithPrefix(), clientv3.WithMaxCreateRev(w.create-1))
		if err != nil {
			return readOnly(ctx, err)
		}
		b.survey(w, w.key, w.create, resp.Kvs)
	}
	for len(w.bells) > 0 {
		b.mu.Lock()
		lease := clientv3.LeaseID(w.lease.id)
		b.mu.Unlock()
		chunk := w.bells[:min(len(w.bells), maxOps)]
		ops := make([]clientv3.Op, len(chunk))
		for i, name := range chunk {
			ops[i] = clientv3.OpPut(name, ringValue(w.key, w.create), clientv3.WithLease(lease))
		}
		// A user who may not ring may still wait.
		if _, err := b.txn(ctx, nil, ops, nil); err != nil && !notPermitted(err) {
			return err
		}
		w.bells = w.bells[len(chunk):]
	}
	return nil
}

// ringHeader begins what is put at a doorbell.
const ringHeader = "coord-fair 1 revision="

func ringValue(key string, revision int64) string {
	return fmt.Sprintf("%s%d key=%s", ringHeader, revision, key)
}

// readRing reads it back.
func readRing(value string) (key string, revision int64, ok bool) {
	rest, ok := strings.CutPrefix(value, ringHeader)
	digits, key, found := strings.Cut(rest, " key=")
	revision, err := strconv.ParseInt(digits, 10, 64)
	return key, revision, ok && found && err == nil && key != "" && revision > 0
}
