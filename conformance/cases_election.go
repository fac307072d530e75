package conformance

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// electionCases are about leaders. Most are traps that other libraries have fallen into:
//
//	LOCK-272  a second term beside the first      https://github.com/kubernetes-sigs/controller-runtime/issues/1132
//	LOCK-273  released while the work still runs  https://github.com/kubernetes/kubernetes/pull/139991
//	                                              https://github.com/cilium/cilium/pull/42920
//	          slow rollouts, for want of release  https://github.com/open-telemetry/opentelemetry-operator/issues/3058
//	LOCK-274  clean-up for who never led          https://github.com/kubernetes/client-go/issues/1187
//	          a failed Campaign leaves its key    https://github.com/etcd-io/etcd/issues/21128
//	LOCK-275  two leaders, by late notice         https://github.com/kubernetes/kubernetes/issues/23731
//	LOCK-276  SUSPENDED taken for no loss         https://github.com/apache/curator/issues/980 (CURATOR-460)
//	          LOST that is never reported         https://github.com/apache/curator/issues/740 (CURATOR-220)
//	LOCK-278  a candidate without an entry        https://github.com/cagriekin/charts/issues/326
//	LOCK-279  the same after SUSPENDED            https://github.com/apache/curator/issues/740 (CURATOR-220)
//	LOCK-280  Resign forgets the key              https://github.com/etcd-io/etcd/issues/22123
//	LOCK-283  Observe names the wrong leader      https://github.com/etcd-io/etcd/issues/18163
func electionCases() []Case {
	const remedy = "nothing of the adapter's, as a rule: see that its locks keep L1 to L6"
	return []Case{
		{
			ID: "LOCK-271", Name: "one-leads-at-a-time", Clause: "E1", run: oneLeads,
			Why:    "two leaders are what an election is to prevent; two candidates in one process are no exception",
			Remedy: remedy,
		}, {
			ID: "LOCK-272", Name: "a-term-waits-for-the-function-of-the-last", Clause: "E2", run: oneTermAtATime,
			Why:    "a leader that is elected again while its old loops still run is two leaders in one process (controller-runtime 1132)",
			Remedy: "let Renew answer ErrNotHeld for an entry that is gone",
		}, {
			ID: "LOCK-273", Name: "the-key-is-given-back-after-the-function", Clause: "E3", run: givenBackLast,
			Why:    "a lease that is released while the work still runs gives the next leader a companion (kubernetes 139991, cilium 42920); one that is not released makes each rollout wait for its end (opentelemetry-operator 3058)",
			Remedy: "let Unlock free the key at once, and wake who waits",
		}, {
			ID: "LOCK-274", Name: "a-candidate-that-never-led-leaves-nothing", Clause: "E3", run: neverLed,
			Why:    "clean-up that runs for who never led stops the work of who does (client-go 1187); an entry that stays in the queue blocks the election (etcd 21128)",
			Remedy: "let Lock end with its context, and take its entry out of the queue",
		}, {
			ID: "LOCK-277", Name: "a-leader-outlives-a-restart", Clause: "E4", run: leaderRestart, Hooks: []Hook{HookRestart},
			Why:    "a server that is restarted ends sessions and connections: the election has to go on",
			Remedy: "connect again by yourself, with a new session if the old one is gone",
		}, {
			ID: "LOCK-280", Name: "a-lost-reply-is-no-end-of-a-campaign", Clause: "E4", run: campaignReplyLost,
			Why:    "a grant whose reply was lost blocks the candidate that has it, and all others; so does a key that was to be given back, where the request was lost (etcd 22123)",
			Remedy: "let Unlock remove the hold of an attempt whose reply was lost",
		}, {
			ID: "LOCK-281", Name: "lead-ends-by-itself", Clause: "E4", run: leadEnds,
			Why:    "a mistake that is tried again for ever is never found, and a function's own end is not to be repeated",
			Remedy: remedy,
		}, {
			ID: "LOCK-282", Name: "a-function-that-outlives-its-term-is-logged", Clause: "E5", run: overrunLogged,
			Why:    "work that does not heed its context goes on beside the next leader's, and nobody knows",
			Remedy: "let Renew answer ErrNotHeld for an entry that is gone",
		},
	}
}

// oneLeads has candidates of several clients, and two of each under one owner, lead in turn. The second one of a client begins
// while the first one leads, whose term goes on beside it.
func oneLeads(e *env) {
	const clients, each, rounds = 3, 2, 5
	key := e.key("k")
	ctx := coord.WithOwner(e.ctx) // which they must not share
	s := &section{e: e}
	var leads, begins [clients]moment
	for i := range clients {
		leads[i], begins[i] = newMoment(ctx), newMoment(ctx)
	}
	crowd(clients, each, e.plain, func(c *coord.Client, client, candidate int) {
		e.scopeOf("a candidate", func(e *env) {
			if candidate > 0 {
				<-leads[client].Done()
				begins[client].comes()
			}
			for range rounds {
				err := e.lead(ctx, c, key, func(ctx context.Context) error {
					lock, _ := coord.Held(ctx, key)
					s.visit("a leader", lock, func() {
						leads[client].comes()
						<-begins[client].Done()
						e.pass(2 * time.Millisecond)
					})
					return nil
				}, coord.TTL(e.long))
				e.noError(err, "Lead, whose function returned nil")
			}
		})
	})
}

// moment comes once, and at the end of the case.
type moment struct {
	context.Context
	comes context.CancelFunc
}

func newMoment(ctx context.Context) (m moment) {
	m.Context, m.comes = context.WithCancel(ctx)
	return m
}

// oneTermAtATime removes the leader's entry while its function does not heed its context.
func oneTermAtATime(e *env) {
	b, in := e.injected()
	key, ttl, operator := e.key("k"), e.round(2*e.ttl), e.open()
	p := e.lingering(e.clientOn(b), key, coord.TTL(ttl))
	first := recv(e, p.terms, soon, "the first term")
	e.operatorUnlock(operator, key, lastAsk(in, key))
	e.wantError(recv(e, p.causes, e.lapse(ttl)+soon, "the function's context to end with the loss"), "cause of its context", coord.ErrLost)
	e.pass(500 * time.Millisecond)
	if n := len(p.terms); n > 0 {
		e.Errorf("terms that began beside a function that has not returned: saw %d, want none", n)
	}
	p.let()
	second := recv(e, p.terms, e.lapse(ttl)+soon, "the next term, after the function returned")
	rises(e, "the next term", second.Token(), first.Token())
	select {
	case err := <-p.result:
		e.Errorf("Lead after a loss: saw it return %v, want it to campaign again", err)
	default:
	}
}

// lastAsk is the id of the last attempt on key, by Lock or TryLock.
func lastAsk(in *Injector, key string) (id string) {
	for _, c := range in.Calls() {
		if c.Key == key && (c.Op == "TryLock" || c.Op == "Lock") {
			id = c.ID
		}
	}
	return id
}

// givenBackLast stops a leader whose function takes its time. Only a release can explain that the next one leads: the
// lease is long.
func givenBackLast(e *env) {
	key, rival := e.key("k"), e.open()
	p := e.lingering(e.client(), key, coord.TTL(e.long))
	recv(e, p.terms, soon, "the first leader")
	next := e.lingering(e.client(), key, coord.TTL(e.long))
	p.stop()
	e.wantError(recv(e, p.causes, soon, "the function's context to end with the caller's"), "cause of its context", context.Canceled)
	e.pass(500 * time.Millisecond)
	e.refused(rival, key, "while the function of a leader that is stopped has not returned")
	if len(next.terms) > 0 || len(p.result) > 0 {
		e.Errorf("a leader that is stopped, whose function has not returned: saw Lead return, or the next one lead, want neither")
	}
	p.let()
	e.wantError(recv(e, p.result, soon, "Lead, after its function returned"), "Lead whose context was cancelled", context.Canceled)
	recv(e, next.terms, soon, "the next leader, after the first has returned")
	_ = next.end(e)

	e.panics("Lead", func(fn func(context.Context) error) error {
		return e.lead(e.within(soon), e.client(), key, fn, coord.TTL(e.long))
	})
	e.free(rival, key, 3*time.Second, "after a panic of a leader")
}

// neverLed cancels a candidate that waits.
func neverLed(e *env) {
	e.abandons()
	key, holder, r := e.key("k"), e.open(), e.req(e.long)
	e.take(holder, key, r)
	b, in := e.injected()
	p := e.campaign(e.clientOn(b), key, coord.TTL(e.long))
	behind := e.campaign(e.client(), key, coord.TTL(e.long))
	queues := e.queues()
	e.until(soon, "a candidate to ask the store", func() bool {
		return in.returned("TryLock") > 0 && (!queues || in.count("Lock") > 0)
	})
	p.stop()
	e.wantError(recv(e, p.result, soon, "Lead of a candidate that was cancelled"), "Lead of a candidate that was cancelled", context.Canceled)
	e.pass(10 * time.Millisecond) // in which what it has left behind asks for the key, too
	e.end(holder, key, r.ID, "Unlock by the holder")
	recv(e, behind.terms, soon, "the candidate behind one that was cancelled")
	_ = behind.end(e)
	e.free(holder, key, 3*time.Second, "after the candidates have gone")
	if len(p.terms) > 0 {
		e.Errorf("the function of a candidate that never led: saw it run, want it not to")
	}
}

// leaderOutage takes the store from a leader, in two ways, and gives it back.
func leaderOutage(e *env, path pathTo) {
	for how, begin := range map[string]func(Link){"cut": Link.Cut, "stalled": blackHole} {
		b, link := path(e)
		key, ttl := e.key(how), e.round(2*e.ttl)
		p := e.campaign(e.clientOn(b), key, coord.TTL(ttl))
		first := recv(e, p.terms, soon, "the first term")
		begin(link)
		e.wantError(recv(e, p.causes, e.lapse(ttl), "the term to end, its link "+how), "cause of its context", coord.ErrLost)
		e.spared(link, how)
		select {
		case err := <-p.result:
			e.Fatalf("Lead, its link %s: saw it return %v, want it to campaign again", how, err)
		default:
		}
		link.Heal()
		link.Reset()
		second := recv(e, p.terms, 3*soon, "the next term, after its link was "+how)
		rises(e, "the next term", second.Token(), first.Token())
		_ = p.end(e)
		e.free(e.open(), key, 3*time.Second, "after a leader was stopped")
	}
}

// spared counts the campaigns of a second in which none can succeed.
func (e *env) spared(link Link, how string) {
	const most = 60
	in, _ := link.(*Injector)
	if in == nil {
		e.pass(time.Second)
		return
	}
	before, start := requests(in), time.Now()
	e.pass(time.Second)
	n, passed := requests(in)-before, time.Since(start)
	if n > int(most*passed/time.Second) {
		e.Errorf("attempts in %v, its link %s: saw %d, want at most %d a second: campaigns that fail are to pause", passed, how, n, most)
	}
}

// leaderRestart kills the server and has it back: at once, so that the term may go on or be lost, and after the lease
// has ended.
func leaderRestart(e *env) {
	if e.r.suite.Harness.Embedded {
		e.Unsupported("the store is embedded: there is no server to restart")
	}
	faults, key, ttl := e.r.suite.Harness.Faults, e.key("k"), e.round(2*e.ttl)
	p := e.campaign(e.client(), key, coord.TTL(ttl))
	lock := recv(e, p.terms, soon, "the first term")
	killAndRestart(e)
	lock = e.leadsOn(p, lock)
	faults.Kill(e)
	until := lock.Deadline() // a replica that takes over in time renews it
	e.until(e.lapse(ttl), "the term to end or to be renewed, its store being killed", func() bool {
		return lock.Err() != nil || lock.Deadline().After(until)
	})
	faults.Restart(e)
	lock = e.leadsOn(p, lock)
	for len(p.causes) > 0 {
		e.wantError(<-p.causes, "cause of the context of a term that was lost", coord.ErrLost)
	}
	if len(p.result) > 0 {
		e.Errorf("Lead over a restart: saw it return %v, want it to lead", <-p.result)
	}
}

// leadsOn waits until the candidate proves that it leads: the term of lock is renewed, or was lost and there is a
// later one.
func (e *env) leadsOn(p *campaign, lock *coord.Lock) *coord.Lock {
	until, last := lock.Deadline(), lock.Token()
	e.until(3*soon+e.lapse(lock.TTL()), "the term to be renewed, or the next one, after the store was restarted", func() bool {
		if len(p.terms) > 0 {
			lock = <-p.terms
			return true
		}
		return lock.Err() == nil && lock.Deadline().After(until)
	})
	if now := lock.Token(); now < last && e.info.Claims.Has(driver.TokenRestart) {
		e.Errorf("token of the next term: saw %d after %d, want a greater one", now, last)
	}
	return lock
}

// candidateOutage cuts a candidate off for longer than its place in the queue lasts, and another one before it asks.
func candidateOutage(e *env, path pathTo) {
	key, holder, r, ttl := e.key("k"), e.open(), e.req(e.long), e.ttl
	e.take(holder, key, r)
	b1, link1 := path(e)
	b2, link2 := path(e)
	first := e.campaign(e.clientOn(b1), key, coord.TTL(ttl))
	e.pass(500 * time.Millisecond) // it stands in the queue by then, or asks again and again
	link1.Cut()
	link2.Cut()
	second := e.campaign(e.clientOn(b2), key, coord.TTL(ttl))
	e.pass(e.lapse(ttl))
	for _, p := range []*campaign{first, second} {
		if len(p.result) > 0 {
			e.Fatalf("Lead of a candidate that was cut off: saw it return %v, want it to campaign again", <-p.result)
		}
		if len(p.terms) > 0 {
			e.Errorf("a candidate that was cut off while another leads: saw its function run, want it not to")
		}
	}
	link1.Heal()
	link2.Heal()
	e.end(holder, key, r.ID, "Unlock by the leader")
	e.until(3*soon, "a candidate to lead, after its link was healed and the leader has gone", func() bool {
		return len(first.terms)+len(second.terms) > 0
	})
	if len(second.terms) > 0 {
		first, second = second, first
	}
	lock := <-first.terms
	_, err := holder.TryLock(e.within(soon), key, e.req(e.ttl))
	if lock.Err() == nil {
		e.wantError(err, "TryLock while the candidate leads", driver.ErrLocked)
	} else if e.timely() {
		e.Errorf("the candidate's term: saw it lost, want it to lead")
	}
	_ = first.end(e)
	recv(e, second.terms, 3*soon, "the other candidate, after the first has gone")
}

// campaignReplyLost loses the replies to the first attempts of a candidate, and then the first requests that give the
// key back.
func campaignReplyLost(e *env) {
	b, in := e.injected()
	key, lost := e.key("k"), 0
	in.Script(func(call Call) Fault {
		if (call.Op == "TryLock" || call.Op == "Lock") && lost < 2 {
			lost++
			return FailAfter
		}
		return NoFault
	})
	p := e.campaign(e.clientOn(b), key, coord.TTL(e.long))
	recv(e, p.terms, 3*soon, "a term, after replies were lost: long before the lease of what they left has ended")
	unlocks := 0
	in.Script(func(call Call) Fault {
		if call.Op == "Unlock" && unlocks < 2 {
			unlocks++
			return FailBefore
		}
		return NoFault
	})
	_ = p.end(e)
	e.free(e.open(), key, 5*time.Second, "after a leader whose requests to give it back were lost has gone")
}

// leadEnds has Lead return for each of the reasons that there are.
func leadEnds(e *env) {
	c, key, mine := e.client(), e.key("k"), errors.New("the function's own")
	nothing := func(context.Context) error { return nil }
	e.noError(e.lead(e.within(soon), c, key, nothing, coord.TTL(e.long)), "Lead, whose function returned nil")
	failing := func(context.Context) error { return mine }
	e.wantError(e.lead(e.within(soon), c, key, failing, coord.TTL(e.long)), "Lead, whose function failed", mine)
	for name, option := range map[string]coord.LockOption{
		"a TTL of zero": coord.TTL(0), "WaitAtMost": coord.WaitAtMost(time.Hour), "NoRenew": coord.NoRenew(), "MinHold": coord.MinHold(time.Second),
	} {
		e.wantError(e.lead(e.within(soon), c, key, nothing, option), "Lead with "+name, coord.ErrInvalid)
	}
	if !e.info.Claims.Has(driver.Fair) {
		e.wantError(e.lead(e.within(soon), c, key, nothing, coord.Fair()), "Lead with Fair", coord.ErrUnsupported)
	}

	// An error of a term that was lost is no end.
	b, in := e.injected()
	operator, terms, ttl := e.open(), 0, e.round(2*e.ttl)
	err := e.lead(e.within(soon+2*e.lapse(ttl)), e.clientOn(b), key, func(ctx context.Context) error {
		if terms++; terms > 1 {
			return nil
		}
		e.operatorUnlock(operator, key, lastAsk(in, key))
		<-ctx.Done()
		return mine
	}, coord.TTL(ttl))
	e.noError(err, "Lead, whose function failed in a term that was lost, and then returned nil")

	leads, waits := e.client(), e.client()
	p := e.campaign(leads, key, coord.TTL(e.long))
	recv(e, p.terms, soon, "a term")
	q := e.campaign(waits, key, coord.TTL(e.long))
	for _, end := range []struct {
		c *coord.Client
		p *campaign
	}{{waits, q}, {leads, p}} {
		e.gaveBack(end.c.Close(), "Close")
		e.wantError(recv(e, end.p.result, soon, "Lead of a client that was closed"), "Lead of a client that was closed", coord.ErrClosed)
	}
}

// overrunLogged has a function heed the loss of its first term, and not that of the second.
func overrunLogged(e *env) {
	b, in := e.injected()
	log := new(logged)
	key, ttl, operator := e.key("k"), e.ttl, e.open()
	p := e.lingering(e.clientOn(b, coord.WithLogger(slog.New(log))), key, coord.TTL(ttl))
	lose := func() (at time.Time) {
		recv(e, p.terms, e.lapse(ttl)+soon, "a term")
		e.operatorUnlock(operator, key, lastAsk(in, key))
		recv(e, p.causes, e.lapse(ttl)+soon, "the function's context to end with the loss")
		return time.Now()
	}
	lose()
	p.linger <- struct{}{}
	lost := lose()
	e.until(2*e.lapse(ttl)+soon, "warnings of a function that outlives its term, one for each TTL", func() bool { return len(log.warnings()) >= 3 })
	for i, at := range log.warnings() {
		want := lost.Add(min(ttl/10, time.Second) + time.Duration(i)*ttl)
		if off := at.Sub(want).Abs(); e.timely() && off > 5*time.Millisecond {
			e.Errorf("warning %d of a function that outlives its term: saw it %v after the loss, want it after %v", i, at.Sub(lost), want.Sub(lost))
		}
	}
	_ = p.end(e)
	n := len(log.warnings())
	if e.timely() {
		e.pass(2 * ttl)
	}
	if now := len(log.warnings()); now != n {
		e.Errorf("warnings after the function has returned: saw %d, want none", now-n)
	}
}

// logged is a slog.Handler that notes when it was told of a warning.
type logged struct {
	mu sync.Mutex
	at []time.Time
}

func (l *logged) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (l *logged) WithAttrs([]slog.Attr) slog.Handler               { return l }
func (l *logged) WithGroup(string) slog.Handler                    { return l }

func (l *logged) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = append(l.at, time.Now())
	return nil
}

func (l *logged) warnings() []time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]time.Time(nil), l.at...)
}
