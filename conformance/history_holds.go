package conformance

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/coordgo/coord/conformance/internal/history"
	"github.com/coordgo/coord/driver"
)

// holder is a party that takes holds of a few keys at the driver, exclusive ones or shares.
type holder struct {
	*party
	e      *env
	h      *history.Log
	client int
	locker driver.Locker
	keys   []string
	pick   func(dice *rand.Rand, key int) driver.Share // what to ask for of a key
	has    []*having
	past   []*having // that are over, or left to lapse
	left   int       // holds that may still be left to lapse
}

// having is a request of a holder that is under way.
type having struct {
	key    string
	share  driver.Share
	id     string
	held   bool
	unsure bool // it may be held
	over   bool // its Unlock has begun
}

// leases gives what lets the parties take, renew, leave and give back a few keys.
func (e *env) leases(h *history.Log, parties []*party, name string) (play func(moves int)) {
	keys := []string{e.key(name + "lease 1"), e.key(name + "lease 2"), e.key(name + "lease 3")}
	all := make([]*holder, len(parties))
	for i, p := range parties {
		pick := func(*rand.Rand, int) driver.Share { return exclusive }
		all[i] = &holder{party: p, e: e, h: h, client: i, locker: p.backend, keys: keys, pick: pick, left: 2 * (i % 2)}
	}
	return e.holding(all, e.comeTooEarly)
}

// shares gives what lets the parties share two keys, one of readers and writers, one of permits.
func (e *env) shares(h *history.Log, parties []*party, name string) (play func(moves int)) {
	keys := []string{e.key(name + "readers"), e.key(name + "permits")}
	all := make([]*holder, len(parties))
	for i, p := range parties {
		all[i] = &holder{party: p, e: e, h: h, client: i, locker: p.backend.Shared(), keys: keys, pick: pickShare, left: 1}
	}
	return e.holding(all, func(all []*holder) { takeBoth(all[0], all[1]) })
}

// holding gives what lets holders move. It begins with what chance alone brings about in some runs and not in others.
func (e *env) holding(all []*holder, opening func([]*holder)) (play func(moves int)) {
	parties := make([]*party, len(all))
	for i, s := range all {
		parties[i] = s.party
	}
	var once sync.Once
	return func(moves int) {
		once.Do(func() { opening(all) })
		e.run(parties, moves, func(i int, _ *party) { all[i].move() })
	}
}

// comeTooEarly leaves each key to lapse and has a rival come in the middle of its lease.
func (e *env) comeTooEarly(all []*holder) {
	for i := range all[0].keys {
		s := all[i%len(all)]
		s.forget(s.take(i, exclusive))
	}
	e.pass(e.ttl / 2)
	for i := range all[0].keys {
		all[(i+1)%len(all)].take(i, exclusive)
	}
}

// takeBoth has two parties ask for all permits of a free key, and for a read beside a write.
func takeBoth(s, other *holder) {
	s.giveBack(s.take(1, permits(3, 3)))
	w := s.take(0, writer)
	other.giveBack(other.take(0, reader))
	s.giveBack(w)
	r := s.take(0, reader)
	other.giveBack(other.take(0, writer))
	s.giveBack(r)
}

// take begins a request of a key.
func (s *holder) take(key int, share driver.Share) *having {
	h := &having{key: s.keys[key], id: s.e.newID(), share: share}
	s.has = append(s.has, h)
	s.try(h)
	return h
}

func (s *holder) giveBack(h *having) {
	if h.held {
		s.unlock(h)
	}
}

// forget leaves a hold to lapse: nobody looks after it any more.
func (s *holder) forget(h *having) { h.held, h.unsure, h.share.Head = false, false, false }

// move goes on with one of the requests, or begins another, or uses the id of one that is over.
func (s *holder) move() {
	const most = 3 // at a time
	switch n := len(s.has); {
	case len(s.past) > 0 && s.dice.IntN(10) == 0:
		s.stale()
	case n == 0 || n < most && s.dice.IntN(2) == 0:
		i := s.dice.IntN(len(s.keys))
		s.take(i, s.pick(s.dice, i))
	default:
		s.goOn(s.has[s.dice.IntN(n)])
	}
	s.has = slices.DeleteFunc(s.has, func(h *having) bool {
		over := !h.held && !h.unsure && !h.share.Head
		if over {
			s.past = append(s.past, h)
		}
		return over
	})
	s.pause(s.e, s.gap)
}

// stale uses an id that is over: it must touch nobody's hold.
func (s *holder) stale() {
	h := s.past[len(s.past)-1]
	s.past = s.past[:len(s.past)-1]
	if s.dice.IntN(2) == 0 {
		s.renew(h, h.share)
	} else {
		s.unlock(h)
	}
}

// pickShare is a share of the readers' key or the permits'.
func pickShare(dice *rand.Rand, key int) driver.Share {
	share := permits(1+dice.Int64N(2), 4-dice.Int64N(2))
	if key == 0 {
		share = reader
		if dice.IntN(5) < 2 {
			share = writer
		}
	}
	share.Head = dice.IntN(8) == 0
	return share
}

func (s *holder) goOn(h *having) {
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
	case h.held && d < 52 && s.left > 0:
		s.left--
		s.forget(h)
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

func (s *holder) ask(op string, h *having, share driver.Share, call func(context.Context, string, driver.Request) (driver.Grant, error)) history.Operation {
	ttl := s.e.ttl
	if op == history.OpTry && s.left == 0 && s.dice.IntN(3) == 0 { // a long one must not be left to lapse
		ttl = s.e.long
	}
	o := history.Operation{Client: s.client, Op: op, Key: h.key, Who: h.id, Mode: share.Mode, Weight: share.Weight, Of: share.Of, Head: share.Head}
	return s.note(s.e, s.h, o, func(ctx context.Context, o *history.Operation) error {
		g, err := call(ctx, h.key, driver.Request{ID: h.id, TTL: ttl, Share: share})
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

func (s *holder) try(h *having) {
	o := s.ask(history.OpTry, h, h.share, s.locker.TryLock)
	h.held = o.Result == history.OK
	h.unsure = o.Result == history.Unknown
	switch {
	case h.held:
		h.share.Head = false
	case !h.unsure:
		s.pause(s.e, s.e.ttl/16)
	}
}

func (s *holder) renew(h *having, share driver.Share) {
	share.Head = false
	switch s.ask(history.OpRenew, h, share, s.locker.Renew).Result {
	case history.OK:
		h.share = share
	case history.NotHeld:
		h.held = false
	}
}

func (s *holder) unlock(h *having) {
	h.over = true
	o := s.note(s.e, s.h, history.Operation{Client: s.client, Op: history.OpUnlock, Key: h.key, Who: h.id}, func(ctx context.Context, _ *history.Operation) error {
		return s.locker.Unlock(ctx, h.key, h.id)
	})
	h.held, h.share.Head = false, false
	h.unsure = o.Result == history.Unknown || o.Result == history.Nothing
}
