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

// ownersOf are several of each client, who stay for ttl.
func (e *env) ownersOf(h *history.Log, parties []*party, each int, ttl time.Duration, name string) (all []*owner) {
	for i, p := range parties {
		c := e.clientOn(p.backend)
		for j := range each {
			all = append(all, &owner{
				party: &party{dice: e.dice()}, e: e, h: h, client: i, locker: c,
				ctx: coord.WithOwner(e.ctx), ttl: ttl, name: fmt.Sprintf("%s %d.%d", name, i, j),
			})
		}
	}
	return all
}

// ownerships gives what lets several owners of each client lock a few keys, and enter them again. A
// holder asks again and again whether it still holds.
func (e *env) ownerships(h *history.Log, parties []*party, name string) (play func(rounds int)) {
	keys := []string{e.key(name + "owned 1"), e.key(name + "owned 2")}
	owners := e.ownersOf(h, parties, 2, e.ttl, "owner")
	var all []*party
	for _, o := range owners {
		all = append(all, o.party)
	}
	return func(rounds int) {
		e.run(all, rounds, func(i int, p *party) { owners[i].round(keys[p.dice.IntN(len(keys))]) })
	}
}

// keepers gives what lets an owner of each client hold a key until over is done, while one of the next client wants it. Their
// leases are so long that they outlast the time in which servers are replaced, and so short that they end, without renewals,
// while a server stands still.
func (e *env) keepers(h *history.Log, parties []*party, name string) (play func(over context.Context)) {
	owners := e.ownersOf(h, parties, 2, e.round(2*e.ttl), "keeper")
	return func(over context.Context) {
		var wg sync.WaitGroup
		for i := 0; i < len(owners); i += 2 {
			key, rival := e.key(fmt.Sprint(name, "kept ", i/2)), owners[(i+3)%len(owners)]
			kept, end := context.WithCancel(over)
			wg.Go(func() {
				defer end()
				owners[i].keep(over, key)
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
