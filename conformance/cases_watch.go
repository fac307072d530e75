package conformance

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

func watchCases() []Case {
	return []Case{
		{
			ID: "LOCK-283", Name: "watch-shows-each-leader-and-vacancy", Clause: "E6", Slow: true, run: watchLeaders, Needs: driver.Claims{driver.Inspect},
			Why:    "who asks for the leader gets one that has long gone (etcd 18163), and is never told that there is none",
			Remedy: "let Inspect show the id and the token of the holder that there is now",
		}, {
			ID: "LOCK-284", Name: "watch-never-goes-back", Clause: "E6", run: watchOrder, Needs: driver.Claims{driver.Inspect}, Hooks: []Hook{HookFakeTime},
			Why:    "an answer of a server that lags behind names the leader before the present one; but a store that was restored tells the truth",
			Remedy: "nothing of the adapter's, as a rule: see that Inspect reads what was acknowledged last",
		}, {
			ID: "LOCK-285", Name: "watch-goes-on-over-an-outage", Clause: "E6", Slow: true, run: watchOutage, Needs: driver.Claims{driver.Inspect},
			Why:    "who watches for days meets an outage, and must neither end with it nor hammer the store",
			Remedy: "let Inspect fail while the store is away, and work when it is back",
		},
	}
}

// sighting is what a Watch gave.
type sighting struct {
	coord.Holder
	err error
}

// watched is a Watch under way.
type watched struct {
	seen chan sighting
	stop context.CancelFunc
	done chan struct{}
}

func (e *env) watched(c *coord.Client, key string) *watched {
	ctx, stop := context.WithCancel(e.ctx)
	w := &watched{seen: make(chan sighting, 1000), stop: stop, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for h, err := range e.watch(ctx, c, key) {
			w.seen <- sighting{h, err}
		}
	}()
	e.Cleanup(func() {
		stop()
		<-w.done
	})
	return w
}

func (e *env) watch(ctx context.Context, c *coord.Client, key string) iter.Seq2[coord.Holder, error] {
	if f := e.r.suite.Harness.election.watch; f != nil {
		return f(ctx, c, key)
	}
	return c.Watch(ctx, key)
}

// behind is how far a Watch may be behind.
const behind = 5 * time.Second

// vacant waits for a vacancy.
func (e *env) vacant(w *watched, when string) {
	if s := recv(e, w.seen, behind, "a vacancy, "+when); !errors.Is(s.err, coord.ErrNotHeld) || s.ID != "" {
		e.Errorf("Watch %s: saw %q, error %v, want ErrNotHeld and no holder", when, s.Name, s.err)
	}
}

// leads waits for a holder.
func (e *env) leads(w *watched, name string, lock *coord.Lock) {
	s := recv(e, w.seen, behind, "the holder "+name)
	if s.err != nil || s.Name != name || s.Token>>10 != lock.Token()>>10 {
		e.Errorf("Watch while %s leads: saw %q, token %d, error %v, want its token %d", name, s.Name, s.Token, s.err, lock.Token())
	}
}

func watchLeaders(e *env) {
	key, ttl := e.key("k"), e.keep
	w := e.watched(e.client(), key)
	e.vacant(w, "before anybody leads")
	for _, name := range []string{"a.example:1", "b.example:2"} {
		p := e.campaign(e.ctx, e.client(), key, coord.TTL(ttl), coord.HolderName(name))
		p.let()
		e.leads(w, name, recv(e, p.terms, soon, "a term"))
		p.stop()
		recv(e, p.result, soon, "Lead, after the end of its context")
		e.vacant(w, "after "+name+" has gone")
	}
	w.stop()
	if s := recv(e, w.seen, soon, "the end of the watch"); !errors.Is(s.err, context.Canceled) {
		e.Errorf("Watch, its context cancelled: saw %q, error %v, want the context's", s.Name, s.err)
	}
	recv(e, w.done, soon, "the loop over the watch to end")
}

// lagging shows what a case wants of a key.
type lagging struct {
	driver.Backend
	mu    sync.Mutex
	show  []driver.Holder // the next looks; the last of them stays
	shown driver.Holder
	at    time.Time // when it was shown
}

// Inspect shows the next holder. One that is older than the last is shown while the last one's lease is far from its end:
// to who looks late, the last is shown again.
func (l *lagging) Inspect(context.Context, string) (driver.Holder, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, more := l.show[0], len(l.show) > 1
	switch late := time.Since(l.at) > l.shown.TTL/2; {
	case more && h.ID != "" && h.Token < l.shown.Token && late:
		h = l.shown
	case more:
		l.show = l.show[1:]
	}
	l.shown, l.at = h, time.Now()
	if h.ID == "" {
		return h, driver.ErrNotHeld
	}
	return h, nil
}

// watchOrder has the store answer as one that lags behind, and then as one that was restored.
func watchOrder(e *env) {
	const lease = 700 * time.Millisecond
	older, newer := driver.NewHolder(e.newID(), 7, lease), driver.NewHolder(e.newID(), 8, lease)
	l := &lagging{Backend: e.open(), show: []driver.Holder{older, newer, older, newer, {}, newer, older}}
	w := e.watched(e.clientOn(l), e.key("k"))
	var tokens []int64
	e.until(behind, "the older holder, once the lease of the newer one has ended", func() bool {
		for len(w.seen) > 0 {
			tokens = append(tokens, int64((<-w.seen).Token>>10))
		}
		return len(tokens) >= 5
	})
	if want := []int64{7, 8, 0, 8, 7}; !slices.Equal(tokens, want) {
		e.Errorf("tokens of a Watch on a store that lags, 0 for a vacancy: saw %v, want %v", tokens, want)
	}
}

func watchOutage(e *env) {
	b, in := e.injected()
	key := e.key("k")
	p := e.campaign(e.ctx, e.client(), key, coord.TTL(e.long), coord.HolderName("a.example:1"))
	p.let()
	lock := recv(e, p.terms, soon, "a term")
	w := e.watched(e.clientOn(b), key)
	e.leads(w, "a.example:1", lock)
	in.Cut()
	if s := recv(e, w.seen, behind, "an error, its link cut"); !errors.Is(s.err, coord.ErrUnavailable) {
		e.Errorf("Watch, its link cut: saw %q, error %v, want ErrUnavailable", s.Name, s.err)
	}
	before, start := in.count("Inspect"), time.Now()
	e.pass(2 * time.Second)
	if n, most := in.count("Inspect")-before, 2+int(time.Since(start)/(200*time.Millisecond)); n > most {
		e.Errorf("looks in %v: saw %d, want at most %d", time.Since(start).Round(time.Millisecond), n, most)
	}
	if n := len(w.seen); n > 0 {
		e.Errorf("Watch, its link still cut: saw it give %d times more, want the error once", n)
	}
	in.Heal()
	e.leads(w, "a.example:1", lock)
	p.stop()
	recv(e, p.result, soon, "Lead, after the end of its context")
	e.vacant(w, "after the leader has gone")
}
