package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/conformance/internal/history"
	"github.com/coordgo/coord/driver"
)

// run lets each party make so many moves at the same time as the others.
func (e *env) run(parties []*party, moves int, move func(i int, p *party)) {
	var wg sync.WaitGroup
	for i, p := range parties {
		wg.Go(func() {
			for range moves {
				if e.ctx.Err() != nil {
					return
				}
				move(i, p)
			}
		})
	}
	wg.Wait()
}

// note makes one call and records it.
func (p *party) note(e *env, h *history.Log, o history.Operation, call func(context.Context, *history.Operation) error) history.Operation {
	ctx, cancel := context.WithTimeout(e.ctx, p.patience)
	defer cancel()
	before := p.chaos.Changes()
	o.Call = h.Now()
	err := call(ctx, &o)
	o.Return = h.Now()
	o.Shaken = before%2 == 1 || p.chaos.Changes() != before
	switch {
	case err == nil:
		o.Result = history.OK
	case errors.Is(err, driver.ErrLocked):
		o.Result = history.Locked
	case errors.Is(err, driver.ErrNotHeld):
		o.Result = history.NotHeld
	case errors.Is(err, driver.ErrNotSent):
		o.Result, o.Error = history.Nothing, err.Error()
	case driver.Definite(err):
		o.Result, o.Error = history.Nothing, err.Error()
		e.Errorf("%s of %s: saw %v, want an answer or an error of unknown outcome", o.Op, o.Key, err)
	default:
		o.Result, o.Error = history.Unknown, err.Error()
	}
	h.Add(o)
	if o.Result == history.Unknown || o.Result == history.Nothing {
		p.outage.wait(e.ctx)
	}
	return o
}

// leaser is a party that takes leases at the driver.
type leaser struct {
	*party
	e      *env
	h      *history.Log
	client int
	locker driver.Locker
	holds  map[string]string   // the id that has each key, as far as is known
	unsure map[string]string   // ids that may have it
	ending map[string][]string // ids whose Unlock was not confirmed
	past   map[string]string   // an id that had it before
	left   int                 // holds that may still be left to lapse
}

// leases gives what lets the parties take, renew, leave and give back a few keys.
func (e *env) leases(h *history.Log, parties []*party, name string) (play func(moves int)) {
	keys := []string{e.key(name + "lease 1"), e.key(name + "lease 2"), e.key(name + "lease 3")}
	leasers := make([]*leaser, len(parties))
	for i, p := range parties {
		leasers[i] = &leaser{
			party: p, e: e, h: h, client: i, locker: p.backend, left: 2 * (i % 2),
			holds: make(map[string]string), unsure: make(map[string]string), ending: make(map[string][]string), past: make(map[string]string),
		}
	}
	var once sync.Once
	return func(moves int) {
		once.Do(func() { e.comeTooEarly(leasers, keys) })
		e.run(parties, moves, func(i int, p *party) { leasers[i].move(keys[p.dice.IntN(len(keys))]) })
	}
}

// comeTooEarly leaves each key to lapse and has a rival come in the middle of its lease, which
// chance alone brings about in some runs and not in others.
func (e *env) comeTooEarly(leasers []*leaser, keys []string) {
	for i, key := range keys {
		l := leasers[i%len(leasers)]
		l.try(key, e.newID())
		if id := l.holds[key]; id != "" {
			l.past[key] = id
			delete(l.holds, key)
		}
	}
	e.pass(e.ttl / 2)
	for i, key := range keys {
		leasers[(i+1)%len(leasers)].try(key, e.newID())
	}
}

func (l *leaser) move(key string) {
	d := l.dice.IntN(100)
	switch {
	case len(l.ending[key]) > 0 && d < 60:
		l.unlock(key, l.ending[key][0])
	case l.unsure[key] != "" && d < 50:
		l.try(key, l.unsure[key])
	case l.unsure[key] != "":
		l.unlock(key, l.unsure[key])
	case l.past[key] != "" && d < 12:
		l.stale(key, l.past[key])
	case l.holds[key] == "":
		l.try(key, l.e.newID())
	case d < 35:
		l.renew(key, l.holds[key])
	case d < 50:
		l.try(key, l.holds[key])
	case d < 58 && l.left > 0:
		l.left--
		l.past[key] = l.holds[key]
		delete(l.holds, key)
	default:
		l.unlock(key, l.holds[key])
	}
	l.pause(l.e, l.gap)
}

// grant fills in what a grant says.
func (l *leaser) grant(o *history.Operation, g driver.Grant, err error) error {
	if err != nil {
		return err
	}
	o.Token, o.TTL, o.Start = g.Token, int64(g.TTL), o.Call
	if !g.Since.IsZero() {
		o.Start = l.h.At(g.Since)
	}
	return nil
}

func (l *leaser) try(key, id string) {
	ttl := l.e.ttl
	if l.dice.IntN(3) == 0 && l.left == 0 { // a long one must not be left to lapse
		ttl = l.e.long
	}
	o := l.note(l.e, l.h, history.Operation{Client: l.client, Op: history.OpTry, Key: key, Who: id}, func(ctx context.Context, o *history.Operation) error {
		g, err := l.locker.TryLock(ctx, key, driver.Request{ID: id, TTL: ttl})
		return l.grant(o, g, err)
	})
	delete(l.holds, key)
	delete(l.unsure, key)
	switch o.Result {
	case history.OK:
		l.holds[key] = id
	case history.Unknown:
		l.unsure[key] = id
	default:
		l.past[key] = id
		l.pause(l.e, l.e.ttl/16)
	}
}

func (l *leaser) renew(key, id string) {
	o := l.note(l.e, l.h, history.Operation{Client: l.client, Op: history.OpRenew, Key: key, Who: id}, func(ctx context.Context, o *history.Operation) error {
		g, err := l.locker.Renew(ctx, key, driver.Request{ID: id, TTL: l.e.ttl})
		return l.grant(o, g, err)
	})
	if o.Result == history.NotHeld && l.holds[key] == id {
		delete(l.holds, key)
		l.past[key] = id
	}
}

func (l *leaser) unlock(key, id string) {
	o := l.note(l.e, l.h, history.Operation{Client: l.client, Op: history.OpUnlock, Key: key, Who: id}, func(ctx context.Context, _ *history.Operation) error {
		return l.locker.Unlock(ctx, key, id)
	})
	if l.holds[key] == id {
		delete(l.holds, key)
	}
	if l.unsure[key] == id {
		delete(l.unsure, key)
	}
	l.ending[key] = slices.DeleteFunc(l.ending[key], func(other string) bool { return other == id })
	if o.Result == history.Unknown || o.Result == history.Nothing {
		l.ending[key] = append(l.ending[key], id)
	} else {
		l.past[key] = id
	}
}

// stale uses an id that is over: it must touch nobody's hold.
func (l *leaser) stale(key, id string) {
	if l.dice.IntN(2) == 0 {
		l.renew(key, id)
	} else {
		l.unlock(key, id)
	}
	delete(l.past, key)
}

// ownerships gives what lets several owners of each client lock a few keys, and enter them again. A
// holder asks again and again whether it still holds.
func (e *env) ownerships(h *history.Log, parties []*party, name string) (play func(rounds int)) {
	const owners = 2
	keys := []string{e.key(name + "owned 1"), e.key(name + "owned 2")}
	var all []*party
	var run []*owner
	for i, p := range parties {
		c := e.clientOn(p.backend)
		for j := range owners {
			all = append(all, &party{dice: e.dice()})
			run = append(run, &owner{
				party: all[len(all)-1], e: e, h: h, client: i, locker: c,
				ctx: coord.WithOwner(e.ctx), ttl: e.ttl, name: fmt.Sprintf("owner %d.%d", i, j),
			})
		}
	}
	return func(rounds int) {
		e.run(all, rounds, func(i int, p *party) { run[i].round(keys[p.dice.IntN(len(keys))]) })
	}
}

// keepers gives what lets an owner of each client hold a key until over is done, while one of the next client wants it. Their
// leases are so long that they outlast the time in which servers are replaced, and so short that they end, without renewals,
// while a server stands still.
func (e *env) keepers(h *history.Log, parties []*party, name string) (play func(over context.Context)) {
	all := make([]*owner, len(parties))
	rivals := make([]*owner, len(parties))
	for i, p := range parties {
		c := e.clientOn(p.backend)
		for j, role := range []*[]*owner{&all, &rivals} {
			(*role)[i] = &owner{
				party: &party{dice: e.dice()}, e: e, h: h, client: i, locker: c,
				ctx: coord.WithOwner(e.ctx), ttl: e.round(2 * e.ttl), name: fmt.Sprintf("keeper %d.%d", i, j),
			}
		}
	}
	return func(over context.Context) {
		var wg sync.WaitGroup
		for i, keeper := range all {
			key, rival := e.key(fmt.Sprint(name, "kept ", i)), rivals[(i+1)%len(rivals)]
			kept, end := context.WithCancel(over)
			wg.Go(func() {
				defer end()
				keeper.keep(over, key)
			})
			wg.Go(func() {
				for ; kept.Err() == nil; rest(kept, e.ttl/16) {
					rival.round(key)
				}
			})
		}
		wg.Wait()
	}
}

// owner is a goroutine with an owner's context.
type owner struct {
	*party
	e      *env
	h      *history.Log
	client int
	locker coord.Locker
	ctx    context.Context
	ttl    time.Duration
	name   string
}

// round takes key, perhaps twice, and gives it back as often.
func (o *owner) round(key string) {
	first := o.lock(key)
	if first == nil {
		o.pause(o.e, o.e.ttl/8)
		return
	}
	o.check(first, 1+o.dice.IntN(3))
	handles := []*coord.Lock{first}
	if o.dice.IntN(2) == 0 {
		if again := o.lock(key); again != nil {
			o.check(again, 1)
			handles = append(handles, again)
		}
	}
	if o.dice.IntN(5) == 0 { // long enough to be lost, if renewals are
		for end := time.Now().Add(o.e.ttl * 3 / 2); time.Now().Before(end) && o.e.ctx.Err() == nil; {
			rest(o.e.ctx, o.e.ttl/16)
			o.check(first, 1)
		}
	}
	if o.dice.IntN(2) == 0 {
		slices.Reverse(handles)
	}
	for i, l := range handles {
		o.unlock(l)
		for _, rest := range handles[i+1:] {
			o.check(rest, 1)
		}
	}
}

// keep holds key until over is done, or it is lost.
func (o *owner) keep(over context.Context, key string) {
	l := o.lock(key)
	if l == nil {
		o.pause(o.e, o.e.ttl/8)
		return
	}
	for over.Err() == nil && l.Err() == nil {
		rest(over, o.e.ttl/16)
		o.check(l, 1)
	}
	o.unlock(l)
}

func (o *owner) note(op, key string, call func() (*coord.Lock, error)) *coord.Lock {
	rec := history.Operation{Client: o.client, Op: op, Key: key, Who: o.name, Call: o.h.Now()}
	l, err := call()
	rec.Return = o.h.Now()
	if err != nil {
		rec.Error = err.Error()
	}
	if l != nil {
		rec.Token = int64(l.Token())
	}
	switch {
	case err == nil:
		rec.Result = history.OK
	case errors.Is(err, coord.ErrLost):
		rec.Result = history.Lost
	case errors.Is(err, coord.ErrNotHeld):
		rec.Result = history.NotHeld
	case errors.Is(err, coord.ErrLocked):
		rec.Result = history.Locked
	case op == history.OpUnlock && errors.Is(err, coord.ErrUnavailable):
		rec.Result = history.Unconfirmed
	case op == history.OpUnlock || op == history.OpCheck, !errors.Is(err, coord.ErrUnavailable) && !errors.Is(err, coord.ErrUnknownOutcome) && !errors.Is(err, context.DeadlineExceeded) && o.ctx.Err() == nil:
		rec.Result = history.Nothing
		o.e.Errorf("%s by an owner: saw %v, want one of the errors of the contract", op, err)
	default:
		rec.Result = history.Nothing // a Lock that failed holds nothing
	}
	o.h.Add(rec)
	return l
}

func (o *owner) lock(key string) *coord.Lock {
	ctx, cancel := context.WithTimeout(o.ctx, 2*o.ttl)
	defer cancel()
	op, lock := history.OpLock, o.locker.Lock
	if o.dice.IntN(3) == 0 {
		op, lock = history.OpTry, o.locker.TryLock
	}
	return o.note(op, key, func() (*coord.Lock, error) { return lock(ctx, key, coord.TTL(o.ttl)) })
}

func (o *owner) check(l *coord.Lock, times int) {
	for range times {
		o.pause(o.e, 6*time.Millisecond)
		o.note(history.OpCheck, l.Key(), func() (*coord.Lock, error) { return l, l.Err() })
	}
}

func (o *owner) unlock(l *coord.Lock) {
	o.note(history.OpUnlock, l.Key(), func() (*coord.Lock, error) { return l, l.Unlock(o.e.ctx) })
}
