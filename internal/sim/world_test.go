package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
)

// world is one run: a store, its clients, and what is known of them. Everything but the draws and what is atomic is
// guarded by mu.
type world struct {
	plan  *plan
	began time.Time
	raw   store // the store as it is
	quiet atomic.Bool
	calls sync.WaitGroup // on their way, whoever waits for them

	drawing sync.Mutex
	drawn   map[string]uint64

	mu    sync.Mutex
	live  map[*link]bool
	lines []string // of what happened, if they are kept
	keep  bool
	outcome
	stop context.CancelFunc // at the first violation, if no more are wanted

	holdings
	waits
	requests
	signalled
	spends
}

// outcome is what came of a run.
type outcome struct {
	violations                               []violation
	events, done, grants, losses, wakes, had int
	served                                   time.Duration // lives of clients
	hash                                     uint64
}

// violation is something that should not be.
type violation struct{ kind, text string }

func (o *outcome) String() string {
	return fmt.Sprintf("%d events, %d calls, %d grants, %d losses, %d wakes, %d permits, hash %x",
		o.events, o.done, o.grants, o.losses, o.wakes, o.had, o.hash)
}

// draw gives chance by what it is drawn for, and how often that was.
func (w *world) draw(what ...string) *rand.Rand {
	name := strings.Join(what, " ")
	w.drawing.Lock()
	w.drawn[name]++
	n := w.drawn[name]
	w.drawing.Unlock()
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(w.plan.seed+h.Sum64(), n))
}

// note adds what happened to the hash of the run, whatever the order of what happens in one moment. w.mu is held.
func (w *world) note(format string, args ...any) {
	line := time.Since(w.began).String() + " " + fmt.Sprintf(format, args...)
	h := fnv.New64a()
	h.Write([]byte(line))
	w.events++
	w.hash += h.Sum64()
	if w.keep {
		w.lines = append(w.lines, line)
	}
}

// violate notes what should not be. w.mu is held.
func (w *world) violate(kind, format string, args ...any) {
	text := time.Since(w.began).String() + " " + fmt.Sprintf(format, args...)
	w.violations = append(w.violations, violation{kind, text})
	w.note("%s: %s", kind, fmt.Sprintf(format, args...))
	if w.stop != nil {
		w.stop()
	}
}

// count notes a call that the store has made.
func (w *world) count(l *link, op, key string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done++
	w.note("%s %s %q: %v", l.name, op, key, err == nil)
}

// run is a run of p on a store that bend has changed, if it is given. It stops early at the first violation, if that is
// wanted. It is called in a bubble, and leaves nothing there.
func run(p *plan, bend func(store) store, first, keep bool) (*world, *outcome) {
	ctx, cancel := context.WithTimeout(context.Background(), p.length)
	defer cancel()
	s := memory.NewStore()
	w := &world{
		plan: p, began: time.Now(), raw: s.Open(), drawn: map[string]uint64{}, live: map[*link]bool{}, keep: keep,
		holdings: newHoldings(), waits: newWaits(), requests: newRequests(), spends: spends{map[string][]spend{}, map[string][]spend{}, map[string][]spend{}},
	}
	if first {
		w.stop = cancel
	}
	open := func() store {
		if bend == nil {
			return s.Open()
		}
		return bend(s.Open())
	}
	var all sync.WaitGroup
	for n := range p.clients {
		all.Go(func() { w.lives(ctx, n, open) })
	}
	all.Go(func() { w.watch(ctx) })
	all.Wait()
	w.calls.Wait()
	if len(w.violations) == 0 {
		w.judgeSpends()
	}
	return w, &w.outcome
}

// lives are the lives of client n: one after the other, as its process dies and another one is started.
func (w *world) lives(ctx context.Context, n int, open func() store) {
	for life := 0; w.live1(ctx, n, fmt.Sprintf("c%d.%d", n, life), open()); life++ {
	}
}

// live1 is one life of client n. It reports whether there is another one, after the death of its process.
func (w *world) live1(ctx context.Context, n int, name string, s store) (died bool) {
	l := newLink(w, n, name, s)
	opts := []coord.Option{coord.WithHolderName(name), coord.WithLogger(slog.New(slog.DiscardHandler))}
	if w.plan.ahead {
		opts = append(opts, coord.WithPermitLease(coord.PermitLease{For: permitsFor, Lessees: 1}))
	}
	c, err := coord.New(l, opts...)
	if err != nil {
		panic(err)
	}
	w.mu.Lock()
	w.live[l] = true
	w.mu.Unlock()
	from := time.Now()
	// Not all end in one moment, in which there would be no order.
	sooner := func(ctx context.Context, r *rand.Rand, by time.Duration) (context.Context, context.CancelFunc) {
		return context.WithDeadline(ctx, w.began.Add(w.plan.length-by-rand64(r, time.Second)))
	}
	alive, die := sooner(ctx, w.draw(name, "end"), 1)
	defer die()
	var all sync.WaitGroup
	for i := range w.plan.workers {
		k := &worker{w: w, c: c, l: l, name: fmt.Sprintf("%s/%d", name, i), rand: w.draw(name, "worker", fmt.Sprint(i))}
		all.Go(func() {
			var end context.CancelFunc
			k.life, end = sooner(alive, k.rand, time.Second+1)
			defer end()
			k.life = context.WithValue(k.life, callerKey{}, k.name)
			k.work()
		})
	}
	died = w.suffer(alive, l)
	w.mu.Lock()
	w.served += time.Since(from)
	w.mu.Unlock()
	if died {
		w.kill(l)
		die()
		w.calls.Go(func() {
			_ = c.Close() // which reaches nobody: its goroutines end
			all.Wait()
		})
		return true
	}
	all.Wait()
	w.close(c, l)
	return false
}

// suffer has the client of l paused, slow, and its clock stepped, until ctx ends. It reports whether it dies.
func (w *world) suffer(ctx context.Context, l *link) (dies bool) {
	r, f := w.draw(l.name, "suffers"), w.plan.faults
	for {
		select {
		case <-time.After(1 + rand64(r, 2*time.Second)):
		case <-l.doom:
			time.Sleep(1 + rand64(r, 10*time.Millisecond))
			return true
		case <-ctx.Done():
			return false
		}
		p := r.Float64() / 2 // twice a second, on average every other one
		l.mu.Lock()
		switch {
		case p < f.die/2:
			l.mu.Unlock()
			return true
		case p < f.die+f.pause:
			l.until = time.Now().Add(rand64(r, f.longestPause))
		case p < f.die+f.pause+f.lag:
			l.lag = rand64(r, f.longestLag)
		case p < f.die+f.pause+f.lag+f.step:
			l.step += rand64(r, 20*time.Second) - 10*time.Second
			l.steps = time.Now()
		default:
			l.lag = 0
		}
		l.mu.Unlock()
	}
}

// kill has the process of l die: nothing of it reaches the store any more but what is on its way.
func (w *world) kill(l *link) {
	l.mu.Lock()
	l.died = time.Now()
	l.mu.Unlock()
	l.end()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note("%s dies", l.name)
	delete(w.live, l)
	w.forgetHolds(l)
	w.forgetSignals()
}

// rest is how long what was left behind may take to be cleaned up after the faults are over.
const rest = 15 * time.Second

// close ends the life of a client at the end of the run: faults end, the janitor has a while, and what Close should give
// back is given back.
func (w *world) close(c *coord.Client, l *link) {
	w.quiet.Store(true)
	l.mu.Lock()
	l.lag = 0
	l.mu.Unlock()
	stopped := w.stop != nil && len(w.violations) > 0
	if !stopped {
		time.Sleep(rest)
		w.mu.Lock()
		w.judgeLeft(l, "after the end")
		w.mu.Unlock()
	}
	last := "last of " + l.name
	held, err := c.Lock(context.Background(), last)
	from := time.Now()
	if err := c.Close(); err != nil && w.plan.calm() {
		w.mu.Lock()
		w.violate("close", "%s: %v", l.name, err)
		w.mu.Unlock()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if took := time.Since(from); took > 10*time.Second {
		w.violate("close", "%s: took %v", l.name, took)
	}
	if err != nil {
		w.violate("error", "%s has no lock of its own: %v", l.name, err)
	} else if h, err := w.raw.Inspect(context.Background(), last); held.Err() == nil || err == nil {
		w.violate("close", "%s did not give %q back: the holder is %v, the lock's error %v", l.name, last, h, held.Err())
	}
	delete(w.live, l)
	w.forgetHolds(l)
}

// unexpected notes an error of a call that had no reason to fail. w.mu is held.
func (w *world) unexpected(k *worker, op string, err error, allowed ...error) {
	if _, key, _ := strings.Cut(op, " "); err == nil || !w.plan.calm() || w.excused(key) {
		return
	}
	for _, target := range append(allowed, coord.ErrLocked, context.DeadlineExceeded, context.Canceled, coord.ErrClosed) {
		if errors.Is(err, target) {
			return
		}
	}
	w.violate("error", "%s %s: %v", k.name, op, err)
}

var _ driver.Backend = (*link)(nil)
