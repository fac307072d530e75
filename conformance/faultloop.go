package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/conformance/internal/history"
	"github.com/coordgo/coord/driver"
)

// The fault loop is how SQLite tests that it runs out of memory well: a use of the library is
// run again and again, and each time the next of its calls on the store fails, until a run
// completes without meeting the fault. So every call has failed once, in every way.

// faultKind is one way in which a call fails.
type faultKind struct {
	name  string
	fault Fault
	// link breaks the connection under the call instead.
	link func(Link)
	// onward: all later calls fail, too, until the fault is healed.
	onward bool
	// hangs: calls end only with their context.
	hangs bool
	// lost: it is the reply that is lost. The store has applied the call.
	lost bool
}

func failingKinds() []faultKind {
	return []faultKind{
		{name: "request lost", fault: FailBefore},
		{name: "reply lost", fault: FailAfter, lost: true},
		{name: "requests lost from then on", fault: FailBefore, onward: true},
		{name: "replies lost from then on", fault: FailAfter, onward: true, lost: true},
	}
}

func hangingKinds() []faultKind {
	return []faultKind{
		{name: "request hangs", fault: HangBefore, hangs: true},
		{name: "reply hangs", fault: HangAfter, hangs: true},
		{name: "requests hang from then on", fault: HangBefore, onward: true, hangs: true},
		{name: "replies hang from then on", fault: HangAfter, onward: true, hangs: true},
	}
}

// The kinds that break the connection.
var (
	dropped = faultKind{name: "reply dropped by the network", link: Link.DropReply, lost: true}
	mute    = faultKind{name: "replies stalled by the network from then on", link: Link.StallReplies, onward: true, hangs: true}
)

func networkKinds() []faultKind {
	return []faultKind{
		{name: "connection reset", link: Link.Reset},
		dropped,
		{name: "network silent from then on", link: blackHole, onward: true, hangs: true},
	}
}

// looped is the fault loop of one kind of fault over some uses.
func looped(k faultKind, usages func(*env) []usage, names ...string) func(*env, pathTo) {
	return func(e *env, path pathTo) { faultLoop(path, usesOf(usages, names...), []faultKind{k})(e) }
}

// script says what becomes of each call when the fault is at call n.
func (k faultKind) script(n int, link Link) func(Call) Fault {
	return func(c Call) Fault {
		if c.N < n || c.N > n && !k.onward {
			return NoFault
		}
		if k.link != nil {
			if c.N == n {
				k.link(link)
			}
			return NoFault
		}
		return k.fault
	}
}

// usage is one use of locks or limits that the loop goes through.
type usage struct {
	name  string
	needs driver.Claim // without which the store cannot do it
	run   func(*faultRun)
	of    *kind           // of hold; nil: an exclusive one
	free  func(*faultRun) // waits until what it has used can be taken; nil: the run's key
}

// usesOf are the usages whose names begin so.
func usesOf(usages func(*env) []usage, names ...string) func(*env) []usage {
	return func(e *env) []usage {
		return slices.DeleteFunc(usages(e), func(u usage) bool {
			return !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(u.name, name) })
		})
	}
}

// faultRun is one run of a usage, with one fault.
type faultRun struct {
	*env
	c    *coord.Client
	b    driver.Backend
	in   *Injector
	k    string // the run's key
	at   int    // which of its calls fails
	hang bool   // calls may hang
	fair bool   // the usage is about fair waiters
	lost bool   // replies are lost, and no requests
	of   *kind
	// rival is a client of the same store without faults.
	rival driver.Backend
	// freeBy is how soon k is free after the run, the faults being healed.
	freeBy  time.Duration
	closing atomic.Bool
}

const (
	// hangFor is the time of a call that may hang.
	hangFor = 250 * time.Millisecond
	// unlockFor and closeFor are what the contract allows them.
	unlockFor = 2 * time.Second
	closeFor  = 5 * time.Second
	// loopsAtATime bounds the clients of one case that are open. Most of them wait, but each that
	// opens costs the machine something that the other cases are waiting for.
	loopsAtATime = 16
	// mostPositions ends a loop that does not end by itself: a usage makes a handful of calls.
	mostPositions = 40
)

// faultLoop runs each usage with each kind of fault at each of its calls. The case fails if a run
// leaves a key locked, two holders, a limit above its bound, a goroutine, or an error of no kind.
func faultLoop(path pathTo, usages func(*env) []usage, kinds []faultKind) func(*env) {
	return func(e *env) {
		e.leavesNoGoroutine(func(e *env) {
			e.noError(e.client().Ping(e.within(soon)), "Ping")
		}, func(e *env) {
			l := &loops{env: e, path: path, places: make(chan struct{}, loopsAtATime), rival: e.open()}
			var wg sync.WaitGroup
			for _, u := range usages(e) {
				for _, k := range kinds {
					wg.Go(func() { l.loop(u, k) })
				}
			}
			wg.Wait()
		})
	}
}

// loops are the loops of one case.
type loops struct {
	*env
	path   pathTo
	places chan struct{}
	rival  driver.Backend
}

// loop moves one kind of fault through the calls of a usage.
func (l *loops) loop(u usage, k faultKind) {
	start := time.Now()
	for n := 1; ; n++ {
		select {
		case l.places <- struct{}{}:
		case <-l.ctx.Done():
			return
		}
		met := l.once(u, k, n)
		<-l.places
		switch {
		case l.ctx.Err() != nil || l.Failed():
			return
		case !met && n == 1 && !l.timely() && time.Since(start) < watchdog:
			n = 0 // the machine let the time of the call pass before it was made, which shows nothing
		case !met && n == 1:
			l.Errorf("%s, %s: saw no call on the store, want at least one", u.name, k.name)
			return
		case !met:
			return
		case n == mostPositions:
			l.Errorf("%s, %s: saw the fault met at call %d, want so few calls", u.name, k.name, n)
			return
		}
	}
}

// once runs a usage whose nth call fails, and reports whether there was such a call.
func (l *loops) once(u usage, k faultKind, n int) (met bool) {
	done := make(chan struct{})
	go func() { // which Fatalf may end
		defer close(done)
		what := fmt.Sprintf("%s, at call %d: %s", u.name, n, k.name)
		l.scopeOf(what, func(e *env) {
			e.noError(e.ctx.Err(), "the case's context")
			if k.link != nil || k.hangs {
				e.abandons()
			}
			b, link := l.path(e)
			inner, in := NewInjector(b)
			f := &faultRun{
				env: e, b: inner, in: in, at: n, hang: k.hangs, fair: u.needs == driver.Fair, lost: k.lost, freeBy: 5 * time.Second,
				of: cmp.Or(u.of, lockKind), rival: l.rival, k: e.key(what),
			}
			c, err := coord.New(e.under(inner), coord.WithLogger(slog.New(slog.DiscardHandler)))
			e.noError(err, "coord.New")
			f.c = c
			e.Cleanup(func() { f.close() })
			in.Script(k.script(n, link))
			u.run(f)
			if k.onward || k.link != nil {
				in.Script(nil)
				link.Heal()
			}
			if u.free != nil {
				u.free(f)
			} else {
				f.leftFree()
			}
			f.close()
			met = in.count("") >= n
		})
	}()
	<-done
	return met
}

// leftFree waits until the run's key can be taken whole, and nobody is in its queue.
func (f *faultRun) leftFree() {
	if !f.r.locks {
		return
	}
	key := f.of.key(f.k)
	f.freeFor(f.of.at(f.rival), key, f.of.whole, f.freeBy, "after the faults")
	if f.of != lockKind {
		f.free(f.rival, key, f.freeBy, "which is the queue of a shared key, after the faults")
	}
}

func (f *faultRun) close() {
	f.closing.Store(true)
	f.inTime("Close", closeFor, func() error { return f.c.Close() })
}

// call makes one call of the client, which is to end with its context, and to say what happened.
func (f *faultRun) call(op string, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(f.ctx, f.allowed())
	defer cancel()
	return f.inTime(op, f.allowed(), func() error { return fn(ctx) })
}

// allowed is the time that a call of the run is given.
func (f *faultRun) allowed() time.Duration {
	if f.hang {
		return hangFor
	}
	return f.bound(soon)
}

// inTime calls fn and checks that it ends in time, with an error that has a meaning.
func (f *faultRun) inTime(op string, allowed time.Duration, fn func() error) error {
	start := time.Now()
	err := fn()
	f.env.inTime(start, allowed+prompt, op)
	if err != nil {
		f.meaningful(op, err)
	}
	return err
}

// meaningful fails the run unless err is one that a fault of the store explains.
func (f *faultRun) meaningful(op string, err error) {
	var full *coord.Error
	if !errors.As(err, &full) {
		f.Errorf("%s: saw error %v, want an *Error", op, err)
	}
	kinds := []error{coord.ErrUnavailable, coord.ErrUnknownOutcome, coord.ErrLocked, coord.ErrNotHeld, coord.ErrLimited, context.Canceled, context.DeadlineExceeded}
	if f.closing.Load() {
		kinds = append(kinds, coord.ErrClosed)
	}
	for _, kind := range kinds {
		if errors.Is(err, kind) {
			return
		}
	}
	f.Errorf("%s: saw error %v, want one that says that the store failed, or what it said before", op, err)
}

// unsettled wants an error that leaves the outcome open, or else one that says that the store was
// not asked for any change yet, as when an adapter that reads before it swaps got no answer to its
// read. The first is cleaned up after and the second is not: that the key is free in the end shows that
// the adapter knew.
func (f *faultRun) unsettled(err error, what string) {
	if !errors.Is(err, driver.ErrNotSent) {
		f.wantError(err, what, coord.ErrUnknownOutcome)
	}
}

// holds fails the run if a rival is granted what nobody may be beside a lock that says it is held.
func (f *faultRun) holds(l *coord.Lock) { f.bars(l, f.of.barred) }

func (f *faultRun) bars(l *coord.Lock, s driver.Share) {
	if l.Err() != nil {
		return
	}
	rival, key, r := f.of.at(f.rival), f.of.key(f.k), f.share(s, f.long)
	_, err := f.tryLock(rival, key, r)
	if err != nil {
		f.wantError(err, "TryLock by a rival while the key is held", driver.ErrLocked)
		return
	}
	if l.Err() == nil {
		f.Errorf("TryLock by a rival, of %s: saw a grant while the holder's Err is nil, want ErrLocked", history.ShareText(s))
	}
	f.end(rival, key, r.ID, "Unlock by the rival")
}

// unlock gives a lock back.
func (f *faultRun) unlock(l *coord.Lock) error {
	err := f.inTime("Unlock", unlockFor, func() error { return l.Unlock(f.ctx) })
	if again := l.Err(); again == nil {
		f.Errorf("Err after Unlock, which gave %v: saw nil, want ErrNotHeld: the hold is over all the same", err)
	}
	return err
}
