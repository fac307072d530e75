package conformance

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/conformance/internal/runner"
	"github.com/coordgo/coord/driver"
)

// env is what a case works with.
type env struct {
	*runner.Recorder
	ctx context.Context // the case's

	r    *suiteRun
	c    *Case
	info driver.Info
	// ttl is a short lease on this store, whose end is awaited. keep is one that is to be renewed before it ends. long is
	// one that does not end within a case, nor while a wait goes on.
	ttl, keep, long time.Duration

	unconfirmed atomic.Bool // an Unlock of a client was not answered in time

	randMu sync.Mutex
	rand   *rand.Rand
}

const (
	// shortTTL is no whole second: there are stores that would make none of it.
	shortTTL = 900 * time.Millisecond
	// prompt is how late a call may be that is to end at once.
	prompt = 100 * time.Millisecond
	// watchdog is how long anything is waited for where time is not judged.
	watchdog = time.Minute
	// soon is a bound for what only takes round trips.
	soon = 10 * time.Second
)

// timely reports whether the case judges when something happens: in fake time it does, exactly. The clock of a machine
// tells how busy the machine is: there the case judges what happens, in which order and how often.
func (e *env) timely() bool { return e.r.suite.Harness.FakeTime }

// bound is how long to wait for what has to come within d. 0 is at once: it is there already, unless an Unlock was not
// confirmed. Nothing fails a case about
// a claim that is not made, so that it does not wait for long.
func (e *env) bound(d time.Duration) time.Duration {
	if e.timely() || d == 0 && !e.unconfirmed.Load() || e.c.Proves != "" && !claimed(e.r.suite.Harness.Claims, e.c.Proves) {
		return d
	}
	return max(d, watchdog)
}

// growing calls try with a short lease, and with longer ones as long as it reports that the lease may have ended before
// what is to happen within it: what is judged then is judged of a lease that lasted.
func (e *env) growing(ttl time.Duration, try func(e *env, ttl time.Duration) (early bool)) {
	for ttl = e.round(ttl); ; ttl = e.round(2 * ttl) {
		early := false
		e.scope(func(e *env) { early = try(e, ttl) })
		switch {
		case !early || e.Failed():
			return
		case e.timely() || ttl >= watchdog:
			e.Fatalf("a lease of %v: saw it end before a few calls were answered", ttl)
		}
	}
}

// abandons is for cases whose calls end before they are answered. Where a machine holds up a request, it may be applied
// after the one that is to clear up after it: what it leaves ends with its lease, which ends while it is waited for.
func (e *env) abandons() {
	if !e.timely() {
		e.long = e.keep
	}
}

// inTime fails the case if what began at start took longer than most, where time is judged.
func (e *env) inTime(start time.Time, most time.Duration, what string) {
	if took := time.Since(start); e.timely() && took > most {
		e.Errorf("%s: saw it take %v, want at most %v", what, took, most)
	}
}

func (r *suiteRun) newEnv(rec *runner.Recorder, c *Case) *env {
	seed := r.report.Seed
	for _, b := range []byte(c.ID) {
		seed = seed*31 + uint64(b)
	}
	e := &env{Recorder: rec, ctx: rec.Context(), r: r, c: c, info: r.info, rand: rand.New(rand.NewPCG(seed, 0))}
	e.ttl, e.keep = e.round(shortTTL), e.round(30*time.Second)
	e.long = e.round(max(2*time.Minute, 10*e.ttl))
	return e
}

// round makes of d a lease that this store can grant.
func (e *env) round(d time.Duration) time.Duration {
	d = max(d, e.info.MinTTL)
	if step := e.info.TTLStep; step > 0 {
		d = (d + step - 1) / step * step
	}
	if e.info.MaxTTL > 0 {
		d = min(d, e.info.MaxTTL)
	}
	return d
}

// lapse is how long to wait for a lease of ttl to end by itself. A store that counts in
// steps rounds the end up, and reads its own clock once a step: two steps.
func (e *env) lapse(ttl time.Duration) time.Duration {
	return ttl + 2*e.info.TTLStep + 2*time.Second
}

// key is a key that no other case and no other run uses.
func (e *env) key(name string) string {
	return "conformance/" + e.r.report.Run + "/" + e.c.ID + "/" + name
}

// open opens a client of the store; it is closed with the case.
func (e *env) open() driver.Backend {
	b := e.opened(e.r.suite.Harness.Open)
	e.Cleanup(func() { e.close(b) })
	return b
}

// opened opens something by a function of the harness. Where a machine is too slow for the time that the function allows
// itself, it has another one.
func (e *env) opened(open func(TB) driver.Backend) (b driver.Backend) {
	const timeOut = time.Second
	for start := time.Now(); ; {
		began := time.Now()
		failure := e.Attempt(func(tb *runner.Recorder) {
			if b = open(tb); b == nil {
				tb.Fatalf("Open gave nil")
			}
		})
		switch {
		case failure == "":
			return b
		case e.timely() || time.Since(began) < timeOut || time.Since(start) > watchdog || e.ctx.Err() != nil:
			e.Fatalf("%s", failure)
		}
	}
}

func (e *env) close(b interface{ Close() error }) {
	if err := b.Close(); err != nil {
		e.Errorf("Close: saw %v, want nil", err)
	}
}

// queues reports whether waiters queue at the store.
func (e *env) queues() bool { return e.info.Claims.Has(driver.Fair) || e.info.Claims.Has(driver.Wake) }

// injected opens a client of the store behind an Injector.
func (e *env) injected() (driver.Backend, *Injector) {
	b, in := NewInjector(e.open())
	return b, in
}

// pathTo is a way to get a client whose connection can be broken.
type pathTo func(e *env) (driver.Backend, Link)

// byDriver breaks the calls themselves, byNetwork the connection under them.
func byDriver(e *env) (driver.Backend, Link) {
	b, in := e.injected()
	return b, in
}

func byNetwork(e *env) (driver.Backend, Link) {
	var link Link
	b := e.opened(func(tb TB) (b driver.Backend) {
		b, link = e.r.suite.Harness.Faults.Link(tb)
		return b
	})
	e.Cleanup(func() {
		link.Heal()
		e.close(b)
	})
	return b, link
}

// newID names a hold of a bare driver.
func (e *env) newID() string {
	var random [16]byte
	e.randMu.Lock()
	for i := range random {
		random[i] = byte(e.rand.Uint32())
	}
	e.randMu.Unlock()
	return driver.FormatID("conformance", os.Getpid(), time.Now(), random)
}

// within is a context of the case that ends after d, or with the watchdog if d is for what only takes round trips.
func (e *env) within(d time.Duration) context.Context {
	if d >= soon {
		d = e.bound(d)
	}
	ctx, cancel := context.WithTimeout(e.ctx, d)
	e.Cleanup(cancel)
	return ctx
}

// noError ends the case on an error.
func (e *env) noError(err error, what string) {
	if err != nil {
		e.Fatalf("%s: saw %v, want no error", what, err)
	}
}

// wantError fails the case unless err is all of targets.
func (e *env) wantError(err error, what string, targets ...error) bool {
	for _, target := range targets {
		if !errors.Is(err, target) {
			e.Errorf("%s: saw error %v, want one that is %q", what, err, target)
			return false
		}
	}
	return true
}

// pass lets time go by where time is the subject.
func (e *env) pass(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-e.ctx.Done():
		e.Fatalf("the case was ended while it waited")
	}
}

// until waits for a condition.
func (e *env) until(within time.Duration, what string, cond func() bool) {
	start := time.Now()
	within = e.bound(within)
	for !cond() {
		if time.Since(start) > within {
			e.Fatalf("waited %v for: %s", within, what)
		}
		e.pass(2 * time.Millisecond)
	}
}

// recv waits for a value.
func recv[T any](e *env, ch <-chan T, within time.Duration, what string) T {
	select {
	case v := <-ch:
		return v
	default:
	}
	within = e.bound(within)
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case v := <-ch:
		return v
	case <-t.C:
		e.Fatalf("waited %v for: %s", within, what)
	case <-e.ctx.Done():
		e.Fatalf("the case was ended while it waited for: %s", what)
	}
	panic("unreachable")
}

// scope runs fn with a TB of its own, so that whatever is opened in it is closed when it returns.
func (e *env) scope(fn func(*env)) { e.scopeOf("", fn) }

// scopeOf is scope for a part of the case that has a name, which is told with what fails in it.
func (e *env) scopeOf(part string, fn func(*env)) {
	if part != "" {
		part += ": "
	}
	rec := runner.NewRecorder(e.ctx, e.Name())
	defer func() {
		messages, _ := rec.Result()
		for _, m := range messages {
			if m.Failure {
				m.Text = part + m.Text
				e.Forward(m)
			}
		}
	}()
	rec.Run(func() { fn(e.r.newEnv(rec, e.c)) })
}

// async calls fn in a goroutine and gives its error.
func async(fn func() error) <-chan error {
	ch := make(chan error, 1)
	go func() { ch <- fn() }()
	return ch
}
