package conformance

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/coordgo/coord/driver"
)

func coreCases() []Case {
	return []Case{
		{
			ID: "CORE-01", Name: "info-and-claims-agree", Clause: "C1", run: infoAgrees,
			Why:    "a matrix of features that is typed by hand drifts from what the stores do (tooz)",
			Remedy: "make the claims a constant of the package, with exactly one scope, the same at every opening",
		}, {
			ID: "CORE-02", Name: "calls-end-with-their-context", Clause: "C2", run: callsEnd, Hooks: []Hook{HookLink},
			Why:    "a client library that ignores the context's deadline hangs its caller for its own time-outs (go-redis without ContextTimeoutEnabled)",
			Remedy: "pass the context to every call of the client library, and bound what does not take one",
		}, {
			ID: "CORE-03", Name: "ended-context-is-told", Clause: "C2", run: endedContext,
			Why:    "a call with a dead context that succeeds, or hides why it failed, breaks every select around it",
			Remedy: "look at the context first, and give driver.NotSent(ctx.Err())",
		}, {
			ID: "CORE-04", Name: "closed-backend-says-so", Clause: "L11", run: closedBackend,
			Why:    "a call on a closed client that hangs or panics turns an orderly shutdown into a crash",
			Remedy: "answer ErrClosed after Close, and let Close be called twice",
		}, {
			ID: "CORE-05", Name: "lock-and-limit-of-one-key-are-apart", Clause: "L10", run: halvesApart,
			Why:    "a lock and a limit of the same name are an everyday coincidence",
			Remedy: "give locks and limits different prefixes in the store",
		},
	}
}

func infoAgrees(e *env) {
	b := e.open()
	info := b.Info()
	want := e.r.suite.Harness.Claims
	if missing := want.Missing(info.Claims...); len(missing) > 0 {
		e.Errorf("Info claims %q beyond the harness' claims: want the same", missing)
	}
	if missing := info.Claims.Missing(want...); len(missing) > 0 {
		e.Errorf("the harness claims %q beyond Info: want the same", missing)
	}
	if unknown := driver.Claims(driver.AllClaims()).Missing(info.Claims...); len(unknown) > 0 {
		e.Errorf("Info claims %q: want claims of package driver", unknown)
	}
	scopes := slices.DeleteFunc(slices.Clone(info.Claims), func(c driver.Claim) bool {
		return c != driver.ScopeProcess && c != driver.ScopeMachine && c != driver.ScopeHosts
	})
	if len(scopes) != 1 {
		e.Errorf("Info claims the scopes %q: want exactly one", scopes)
	}
	if info.Name == "" {
		e.Errorf("Info.Name is empty: want the scheme of the store's URLs")
	}
	if info.MinTTL < 0 || info.TTLStep < 0 || info.MaxTTL < 0 || info.MaxTTL > 0 && info.MaxTTL < info.MinTTL {
		e.Errorf("Info: saw MinTTL %v, TTLStep %v, MaxTTL %v: want none negative and MaxTTL 0 or at least MinTTL", info.MinTTL, info.TTLStep, info.MaxTTL)
	}
	if again := b.Info(); !slices.Equal(again.Claims, info.Claims) || again.MinTTL != info.MinTTL || again.MaxTTL != info.MaxTTL {
		e.Errorf("Info: saw %+v and then %+v, want the same answer always", info, again)
	}
}

// anyCalls are calls on whichever half there is, each on its own, with a key that nobody has used and a lease that lasts.
func (e *env) anyCalls(b driver.Backend) map[string]func(context.Context) error {
	calls := make(map[string]func(context.Context) error)
	key := func() string { return e.key("any/" + e.newID()) }
	if e.r.locks {
		calls["TryLock"] = func(ctx context.Context) error {
			_, err := b.TryLock(ctx, key(), e.req(e.keep))
			return err
		}
		calls["Renew"] = func(ctx context.Context) error {
			_, err := b.Renew(ctx, key(), e.req(e.keep))
			return err
		}
		calls["Unlock"] = func(ctx context.Context) error { return b.Unlock(ctx, key(), e.newID()) }
	}
	if e.queues() {
		calls["Lock"] = func(ctx context.Context) error {
			_, err := b.Lock(ctx, key(), e.req(e.keep), func() {})
			return err
		}
	}
	if e.r.limits {
		limit := normal(driver.Limit{Rate: 10, Per: time.Minute})
		calls["Take"] = func(ctx context.Context) error {
			_, err := b.Take(ctx, key(), limit, []driver.Ask{{Min: 1, N: 1}})
			return err
		}
		calls["Reset"] = func(ctx context.Context) error { return b.Reset(ctx, key(), limit) }
	}
	if !errors.Is(b.Ping(e.within(soon)), driver.ErrUnsupported) {
		calls["Ping"] = b.Ping
	}
	return calls
}

func callsEnd(e *env) {
	const allowed = 200 * time.Millisecond
	b, link := byNetwork(e)
	calls := e.anyCalls(b)
	for name, call := range calls { // connections are open from now on
		var err error
		e.until(soon, name+" over a link without faults to be answered", func() bool {
			err = call(e.within(soon))
			return !e.unanswered(err)
		})
		if err != nil && !errors.Is(err, driver.ErrNotHeld) {
			e.Fatalf("%s over a link without faults: saw %v, want no error but ErrNotHeld", name, err)
		}
	}
	blackHole(link)
	for name, call := range calls {
		name += " over a link that swallows everything"
		for how, ending := range map[string]func() (context.Context, context.CancelFunc){
			"its deadline": func() (context.Context, context.CancelFunc) { return context.WithTimeout(e.ctx, allowed) },
			"a cancellation": func() (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(e.ctx)
				time.AfterFunc(allowed, cancel)
				return ctx, cancel
			},
		} {
			ctx, cancel := ending()
			start := time.Now()
			err := call(ctx)
			cancel()
			e.inTime(start, allowed+prompt, name+", ended by "+how)
			if err == nil {
				e.Errorf("%s, ended by %s: saw no error, want one", name, how)
			}
		}
	}
}

func endedContext(e *env) {
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	for name, call := range e.anyCalls(e.open()) {
		err := call(ctx)
		e.wantError(err, name+" under a context that has ended", context.Canceled)
	}
	if !e.r.locks {
		return
	}
	l, r, key := e.open(), e.req(e.long), e.key("untouched")
	if _, err := l.TryLock(ctx, key, r); err == nil || driver.Definite(err) {
		e.free(e.open(), key, 0, "after a TryLock that says it changed nothing")
	}
}

func closedBackend(e *env) {
	b := e.open()
	calls := e.anyCalls(b)
	if err := b.Close(); err != nil {
		e.Errorf("Close: saw %v, want nil", err)
	}
	for name, call := range calls {
		e.wantError(call(e.within(soon)), name+" after Close", driver.ErrClosed)
	}
	if err := b.Close(); err != nil {
		e.Errorf("Close for the second time: saw %v, want nil", err)
	}
}

func halvesApart(e *env) {
	b := e.open()
	if !e.r.locks || !e.r.limits {
		e.Unsupported("the store has only one half, locks or limits")
	}
	key, limit := e.key("shared"), normal(driver.Limit{Rate: 2, Per: time.Hour})
	r := e.req(e.long)
	e.take(b, key, r)
	e.grantedN(e.ask(b, key, limit, 1, 1), 1, "Take beside a lock of the same key")
	e.end(b, key, r.ID, "Unlock beside a limit of the same key")
	t := e.ask(b, key, limit, 0, 0)
	if t.Remaining != 1 {
		e.Errorf("Remaining after the Unlock of a lock of the same key: saw %d, want 1", t.Remaining)
	}
	r = e.req(e.long)
	e.take(b, key, r)
	e.noError(b.Reset(e.within(soon), key, limit), "Reset beside a lock of the same key")
	e.refused(b, key, "after the Reset of a limit of the same key")
	e.end(b, key, r.ID, "Unlock after a Reset")
}
