package conformance

import (
	"context"
	"slices"
	"sync"

	"github.com/coordgo/coord/conformance/internal/history"
	"github.com/coordgo/coord/driver"
)

// shareMoves is how many moves each party of a history of shared holds makes.
const shareMoves = 100

// shareHistory lets several clients share two keys at random, and checks what they were told.
func shareHistory(w conditions) func(*env) {
	return func(e *env) {
		parties, endFaults := w(e, historyParties)
		h := e.record(history.Heading{Model: history.ModelShares})
		e.shares(h, parties, "")(shareMoves)
		endFaults()
		h.Lapse = e.barred()
		for key, ops := range h.ByKey() {
			e.judgeShares(h.Heading, key, ops)
		}
	}
}

// judgeShares fails the case if something is wrong with the operations of one key, or none was granted.
func (e *env) judgeShares(head history.Heading, key string, ops []history.Operation) {
	granted := 0
	for i := range ops {
		if ops[i].Op == history.OpTry && ops[i].Result == history.OK {
			granted++
		}
	}
	if granted == 0 {
		e.Errorf("history of %s: saw no grant, want some: it shows nothing", key)
	}
	e.judge(head, key, ops)
}

// sharer is a party that shares keys at the driver.
type sharer struct {
	*party
	e      *env
	h      *history.Log
	client int
	locker driver.SharedLocker
	keys   [2]string // of readers and writers, and of permits
	has    []*having
	left   int // holds that may still be left to lapse
}

// having is a request of a sharer that is under way.
type having struct {
	key    string
	share  driver.Share
	id     string
	held   bool
	unsure bool // it may be held
	over   bool // its Unlock has begun
}

// shares gives what lets the parties share two keys.
func (e *env) shares(h *history.Log, parties []*party, name string) (play func(moves int)) {
	all := make([]*sharer, len(parties))
	for i, p := range parties {
		all[i] = &sharer{
			party: p, e: e, h: h, client: i, locker: p.backend.Shared(), left: 1,
			keys: [...]string{e.key(name + "readers"), e.key(name + "permits")},
		}
	}
	var once sync.Once
	return func(moves int) {
		once.Do(func() { meet(all[0], all[1]) })
		e.run(parties, moves, func(i int, _ *party) { all[i].move() })
	}
}

// meet has two parties ask for what chance alone brings about in some runs and not in others: all permits of a free key,
// and a read beside a write.
func meet(s, other *sharer) {
	s.giveBack(s.take(1, permits(3, 3)))
	w := s.take(0, writer)
	other.giveBack(other.take(0, reader))
	s.giveBack(w)
	r := s.take(0, reader)
	other.giveBack(other.take(0, writer))
	s.giveBack(r)
}

// take begins a request of a key.
func (s *sharer) take(key int, share driver.Share) *having {
	h := &having{key: s.keys[key], id: s.e.newID(), share: share}
	s.has = append(s.has, h)
	s.try(h)
	return h
}

func (s *sharer) giveBack(h *having) {
	if h.held {
		s.unlock(h)
	}
}

// move goes on with one of the requests, or begins another.
func (s *sharer) move() {
	const most = 3 // at a time
	if n := len(s.has); n == 0 || n < most && s.dice.IntN(2) == 0 {
		i := s.dice.IntN(len(s.keys))
		s.take(i, s.pick(i))
	} else {
		s.goOn(s.has[s.dice.IntN(n)])
	}
	s.has = slices.DeleteFunc(s.has, func(h *having) bool { return !h.held && !h.unsure && !h.share.Head })
	s.pause(s.e, s.gap)
}

// pick is a share of the readers' key or the permits'.
func (s *sharer) pick(key int) driver.Share {
	share := permits(1+s.dice.Int64N(2), 4-s.dice.Int64N(2))
	if key == 0 {
		share = reader
		if s.dice.IntN(5) < 2 {
			share = writer
		}
	}
	share.Head = s.dice.IntN(8) == 0
	return share
}

func (s *sharer) goOn(h *having) {
	switch d := s.dice.IntN(100); {
	case h.over:
		s.unlock(h)
	case !h.held && d < 60:
		s.try(h)
	case h.held && d < 15:
		s.try(h)
	case h.held && d < 30:
		s.renew(h, h.share)
	case h.held && d < 45:
		s.renew(h, less(h.share))
	case h.held && d < 50 && s.left > 0:
		s.left--
		h.held, h.unsure, h.share.Head = false, false, false // nobody looks after it any more
	default:
		s.unlock(h)
	}
}

// less is the least that remains of a share.
func less(s driver.Share) driver.Share {
	switch s.Mode {
	case driver.Write:
		s.Mode = driver.Read
	case driver.Permits:
		s.Weight = 1
	}
	return s
}

func (s *sharer) ask(op string, h *having, share driver.Share, call func(context.Context, string, driver.Request) (driver.Grant, error)) history.Operation {
	o := history.Operation{Client: s.client, Op: op, Key: h.key, Who: h.id, Mode: share.Mode, Weight: share.Weight, Of: share.Of, Head: share.Head}
	return s.note(s.e, s.h, o, func(ctx context.Context, o *history.Operation) error {
		g, err := call(ctx, h.key, driver.Request{ID: h.id, TTL: s.e.ttl, Share: share})
		if err != nil {
			return err
		}
		o.Token, o.Slot, o.TTL, o.Start = g.Token, g.Slot, int64(g.TTL), o.Call
		if !g.Since.IsZero() {
			o.Start = s.h.At(g.Since)
		}
		return nil
	})
}

func (s *sharer) try(h *having) {
	o := s.ask(history.OpTry, h, h.share, s.locker.TryLock)
	h.held = o.Result == history.OK
	h.unsure = o.Result == history.Unknown
	if h.held {
		h.share.Head = false
	}
}

func (s *sharer) renew(h *having, share driver.Share) {
	share.Head = false
	switch s.ask(history.OpRenew, h, share, s.locker.Renew).Result {
	case history.OK:
		h.share = share
	case history.NotHeld:
		h.held = false
	}
}

func (s *sharer) unlock(h *having) {
	h.over = true
	o := s.note(s.e, s.h, history.Operation{Client: s.client, Op: history.OpUnlock, Key: h.key, Who: h.id}, func(ctx context.Context, _ *history.Operation) error {
		return s.locker.Unlock(ctx, h.key, h.id)
	})
	h.held, h.share.Head = false, false
	h.unsure = o.Result == history.Unknown || o.Result == history.Nothing
}
