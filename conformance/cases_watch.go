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
type sighting[T any] struct {
	what T
	err  error
}

// watched is a Watch under way, of who holds or of all who do.
type watched[T any] struct {
	seen chan sighting[T]
	stop context.CancelFunc
	done chan struct{}
}

func watching[T any](e *env, watch func(ctx context.Context) iter.Seq2[T, error]) *watched[T] {
	ctx, stop := context.WithCancel(e.ctx)
	w := &watched[T]{seen: make(chan sighting[T], 1000), stop: stop, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for what, err := range watch(ctx) {
			w.seen <- sighting[T]{what, err}
		}
	}()
	e.Cleanup(func() {
		stop()
		<-w.done
	})
	return w
}

// end ends the context of a Watch, which says so and ends.
func (w *watched[T]) end(e *env) {
	w.stop()
	e.wantError(recv(e, w.seen, soon, "the end of a watch").err, "the last of a watch whose context was cancelled", context.Canceled)
	recv(e, w.done, soon, "the loop over the watch to end")
}

func (e *env) watched(c *coord.Client, key string) *watched[coord.Holder] {
	return watching(e, func(ctx context.Context) iter.Seq2[coord.Holder, error] { return e.watch(ctx, c, key) })
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
func (e *env) vacant(w *watched[coord.Holder], when string) {
	if s := recv(e, w.seen, behind, "a vacancy, "+when); !errors.Is(s.err, coord.ErrNotHeld) || s.what.ID != "" {
		e.Errorf("Watch %s: saw %q, error %v, want ErrNotHeld and no holder", when, s.what.Name, s.err)
	}
}

// leads waits for a holder.
func (e *env) leads(w *watched[coord.Holder], name string, lock *coord.Lock) {
	s := recv(e, w.seen, behind, "the holder "+name)
	if h := s.what; s.err != nil || h.Name != name || h.Token>>10 != lock.Token()>>10 {
		e.Errorf("Watch while %s leads: saw %q, token %d, error %v, want its token %d", name, h.Name, h.Token, s.err, lock.Token())
	}
}

func watchLeaders(e *env) {
	key, ttl := e.key("k"), e.keep
	w := e.watched(e.client(), key)
	e.vacant(w, "before anybody leads")
	for _, name := range []string{"a.example:1", "b.example:2"} {
		p := e.campaign(e.client(), key, coord.TTL(ttl), coord.HolderName(name))
		e.leads(w, name, recv(e, p.terms, soon, "a term"))
		_ = p.end(e)
		e.vacant(w, "after "+name+" has gone")
	}
	w.end(e)
}

// shown is a store that shows what a case wants of a key.
type shown struct {
	driver.Backend
	mu     sync.Mutex
	holder driver.Holder
}

// Inspect implements driver.Operator.
func (s *shown) Inspect(context.Context, string) (driver.Holder, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holder.ID == "" {
		return driver.Holder{}, driver.ErrNotHeld
	}
	return s.holder, nil
}

// watchOrder has the store answer as one that lags behind, and then as one that was restored. The holder that was seen
// last may have been renewed: the older one is the truth when that lease has ended, too.
func watchOrder(e *env) {
	const lease, look = 3 * time.Second, time.Second
	older, newer := driver.NewHolder(e.newID(), 7, lease), driver.NewHolder(e.newID(), 8, lease)
	s := &shown{Backend: e.open(), holder: newer}
	w := e.watched(e.clientOn(s), e.key("k"))
	var tokens []int64
	for _, step := range []struct {
		holder driver.Holder
		last   time.Duration
		want   []int64 // 0 is a vacancy
	}{
		{newer, look / 10, []int64{8}},
		{older, lease - look/2, []int64{8}},
		{newer, look, []int64{8}}, // it was renewed
		{older, lease - look*12/10, []int64{8}},
		{older, lease, []int64{8, 7}},
		{driver.Holder{}, look, []int64{8, 7, 0}},
		{newer, look, []int64{8, 7, 0, 8}},
	} {
		s.mu.Lock()
		s.holder = step.holder
		s.mu.Unlock()
		e.pass(step.last)
		for len(w.seen) > 0 {
			tokens = append(tokens, int64((<-w.seen).what.Token>>10))
		}
		if !slices.Equal(tokens, step.want) {
			e.Fatalf("tokens of a Watch on a store that lags, 0 for a vacancy: saw %v, want %v", tokens, step.want)
		}
	}
}

func watchOutage(e *env) {
	b, in := e.injected()
	key := e.key("k")
	p := e.campaign(e.client(), key, coord.TTL(e.long), coord.HolderName("a.example:1"))
	lock := recv(e, p.terms, soon, "a term")
	w := e.watched(e.clientOn(b), key)
	e.leads(w, "a.example:1", lock)
	in.Cut()
	if s := recv(e, w.seen, behind, "an error, its link cut"); !errors.Is(s.err, coord.ErrUnavailable) {
		e.Errorf("Watch, its link cut: saw %q, error %v, want ErrUnavailable", s.what.Name, s.err)
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
	_ = p.end(e)
	e.vacant(w, "after the leader has gone")
}
