package server

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/host"
)

var (
	seeds = flag.Int("seeds", 40, "how many runs of the model")
	seed  = flag.Int("seed", 0, "the only run of the model, if above 0")
)

// The promise to remote holders, in fake time: they go by their own deadlines; their requests and the answers are late,
// lost or come twice; held streams break; servers are killed, drained and started again; the store does not answer for a while. No two
// holders believe in one key at a time, and tokens rise.
func TestModel(t *testing.T) {
	first, last := 1, *seeds
	if *seed > 0 {
		first, last = *seed, *seed
	}
	grants := 0
	for n := first; n <= last; n++ {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, uint64(n))
			w.run()
			grants += w.judge.grants
			if t.Failed() {
				t.Logf("go test ./server -run TestModel -seed %d", n)
			}
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d grants", grants)
	if *seed == 0 && grants < 20*(last-first+1) {
		t.Errorf("%d grants in %d runs: the model does next to nothing", grants, last-first+1)
	}
}

// world is servers on one store, holders, and a judge.
type world struct {
	t     *testing.T
	store *memory.Store
	judge *judge
	slow  time.Duration // how late a message may be
	lossy float64       // how many messages are lost
	calm  time.Duration // the longest time between troubles

	mu      sync.Mutex
	random  *rand.Rand
	servers [2]*process
	drains  sync.WaitGroup
}

// process is a server that can be killed.
type process struct {
	*Server
	link   *link
	killed atomic.Bool
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, store: memory.NewStore(), random: rand.New(rand.NewPCG(seed, 0)), judge: newJudge(t)}
	w.slow = []time.Duration{0, 5 * time.Millisecond, 3 * time.Second}[w.random.IntN(3)] // mild settings miss what harsh ones find
	w.lossy = []float64{0, 0.1, 0.4}[w.random.IntN(3)]
	w.calm = []time.Duration{5 * time.Second, 40 * time.Second, time.Hour}[w.random.IntN(3)]
	for i := range w.servers {
		w.servers[i] = w.start()
	}
	return w
}

// start is a new server on the store.
func (w *world) start() *process {
	p := &process{link: &link{Backend: w.store.Open(), w: w}}
	opened.Store(p.link)
	cfg, err := config.Parse("coord.yaml", []byte("url: linked://\nserve: {drain: 1h}"))
	if err != nil {
		w.t.Fatal(err)
	}
	client, err := cfg.Open(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = client.Close() })
	if p.Server, err = New(w.t.Context(), client, Options{Log: quiet}); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(p.Server.stop)
	return p
}

// kill ends all that the process does: it does not answer, and asks the store for nothing.
func (p *process) kill() {
	p.killed.Store(true)
	p.link.cut.Store(true)
}

// opened is the link of the client that is opened next.
var opened atomic.Pointer[link]

func init() {
	driver.Register("linked", func(context.Context, *url.URL) (driver.Backend, error) { return opened.Load(), nil })
}

// link is a store that may be cut off, as a whole or for one key, and the wall clock of its server. Its answers take
// their time.
type link struct {
	driver.Backend
	w    *world
	cut  atomic.Bool
	mute atomic.Value // a key that is not renewed
	step atomic.Int64
}

// Host implements host.Simulated.
func (l *link) Host() host.Host {
	c := clock.New()
	c.Read = func() clock.Instant {
		now := c.At(time.Now())
		now.Wall += l.step.Load()
		return now
	}
	return host.Host{Clock: c, Jitter: host.Random}
}

// pass is the way to the store and back.
func (l *link) pass(ctx context.Context) error {
	if l.cut.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	l.w.rest(ctx, 20*time.Millisecond)
	return nil
}

func (l *link) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if err := l.pass(ctx); err != nil {
		return driver.Grant{}, err
	}
	g, err := l.Backend.TryLock(ctx, key, r)
	return g, errors.Join(err, l.pass(ctx))
}

func (l *link) Lock(ctx context.Context, key string, r driver.Request, queued func()) (driver.Grant, error) {
	if err := l.pass(ctx); err != nil {
		return driver.Grant{}, err
	}
	g, err := l.Backend.Lock(ctx, key, r, queued)
	return g, errors.Join(err, l.pass(ctx))
}

func (l *link) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if err := l.pass(ctx); err != nil || l.mute.Load() == key {
		return driver.Grant{}, errors.Join(err, errors.New("no answer"))
	}
	g, err := l.Backend.Renew(ctx, key, r)
	return g, errors.Join(err, l.pass(ctx))
}

func (l *link) RenewAll(context.Context, []driver.Hold) []driver.Renewal { return nil }

func (l *link) Unlock(ctx context.Context, key, id string) error {
	if err := l.pass(ctx); err != nil {
		return err
	}
	return errors.Join(l.Backend.Unlock(ctx, key, id), l.pass(ctx))
}

// draw is a chance.
func (w *world) draw(p float64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.Float64() < p
}

func (w *world) span(most time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(w.random.Int64N(int64(most) + 1))
}

func (w *world) number(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

// rest waits up to most, or until ctx ends.
func (w *world) rest(ctx context.Context, most time.Duration) {
	select {
	case <-time.After(w.span(most)):
	case <-ctx.Done():
	}
}

// run lets all go on for ten minutes.
func (w *world) run() {
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for i := range 6 {
		h := &holder{world: w, name: fmt.Sprintf("holder-%d", i), keys: []string{"key-0", "key-1"}, ttl: time.Second + w.span(9*time.Second)}
		if i > 1 { // those two want both
			h.keys = h.keys[i%2:][:1]
		}
		h.drift = 1 + []float64{0, 0.009, -0.009}[w.number(3)] // off by less than the margin of the server
		all.Go(func() { h.work(ctx) })
	}
	all.Go(func() { w.trouble(ctx) })
	all.Wait()
	for i := range w.servers {
		w.servers[i].link.cut.Store(false)
		w.servers[i].stop()
	}
	w.drains.Wait()
}

// trouble befalls servers and store.
func (w *world) trouble(ctx context.Context) {
	for ctx.Err() == nil {
		w.rest(ctx, w.calm)
		i := w.number(2)
		w.mu.Lock()
		p := w.servers[i]
		w.mu.Unlock()
		switch w.number(5) {
		case 0:
			p.kill()
		case 1:
			w.drains.Go(func() { _ = p.Drain(ctx); p.kill() })
		case 2: // the store is away
			p.link.cut.Store(true)
			w.rest(ctx, 8*time.Second)
			p.link.cut.Store(p.killed.Load())
			continue
		case 3: // for one key
			p.link.mute.Store(fmt.Sprintf("key-%d", w.number(2)))
			w.rest(ctx, 15*time.Second)
			p.link.mute.Store("")
			continue
		case 4:
			p.link.step.Add(int64(w.span(20*time.Second) - 5*time.Second))
			continue
		}
		next := w.start()
		w.mu.Lock()
		w.servers[i] = next
		w.mu.Unlock()
	}
}

// send is a request of a holder, which may be lost, late, or come twice; ok is false if no answer has come.
func (w *world) send(ctx context.Context, p *process, path, body string) (a answer, ok bool) {
	if w.draw(w.lossy) {
		w.rest(ctx, w.slow)
		return a, false
	}
	ask := func() answer {
		w.rest(ctx, w.slow)
		if p.killed.Load() {
			return answer{}
		}
		k := &kit{t: w.t, Server: p.Server}
		ctx, leave := context.WithTimeout(ctx, w.span(time.Minute)) // the connection breaks
		defer leave()
		a := k.postUnchecked(ctx, path, body)
		if a.status == http.StatusInternalServerError || a.status == http.StatusBadRequest {
			w.t.Errorf("%s %s: %v", path, body, a.body)
		}
		w.rest(ctx, w.slow) // also a server that stops before it sends what it has decided
		return a
	}
	if w.draw(0.1) {
		w.drains.Go(func() { ask() })
	}
	a = ask()
	return a, a.status != 0 && !p.killed.Load() && !w.draw(w.lossy)
}

// holder works under a key, again and again, by one server at a time.
type holder struct {
	*world
	name  string
	keys  []string
	ttl   time.Duration
	drift float64 // of its clock: it counts so many seconds while one passes
	n     int
}

// until is when the holder stops to believe, if it sent at that time and was told of so much.
func (h *holder) until(sent time.Time, left time.Duration) time.Time {
	return sent.Add(time.Duration(float64(left) / h.drift))
}

func (h *holder) work(ctx context.Context) {
	for ctx.Err() == nil {
		h.n++
		h.mu.Lock()
		p := h.servers[h.random.IntN(2)]
		h.mu.Unlock()
		if h.draw(0.4) {
			h.stream(ctx, p, []time.Duration{minWindow, defaultWindow, 5 * time.Second}[h.number(3)])
			h.rest(ctx, 5*time.Second)
			continue
		}
		body := fmt.Sprintf(`{"keys":[%s],"ttl_ms":%d,"wait_ms":%d,"request_id":"%s-%09d"}`, `"`+strings.Join(h.keys, `","`)+`"`, h.ttl.Milliseconds(), h.span(20*time.Second).Milliseconds(), h.name, h.n)
		for try := 0; try < 3 && ctx.Err() == nil; try++ {
			sent := time.Now()
			a, ok := h.send(ctx, p, acquirePath, body)
			if ok && a.status == http.StatusOK {
				h.hold(ctx, p, a, sent)
			}
			if ok {
				break
			}
		}
		h.rest(ctx, 5*time.Second)
	}
}

// hold renews for a while, and then releases, or forgets that it holds anything.
func (h *holder) hold(ctx context.Context, p *process, a answer, sent time.Time) {
	var beliefs []*belief
	for _, l := range a.body["locks"].([]any) {
		lock := l.(map[string]any)
		token, err := strconv.ParseInt(lock["token"].(string), 10, 64)
		if err != nil {
			h.t.Error(err)
		}
		beliefs = append(beliefs, h.judge.begin(h.name, lock["key"].(string), token, h.until(sent, a.left())))
	}
	ends := time.Now().Add(h.span(20 * time.Second))
	for ctx.Err() == nil && time.Now().Before(ends) && h.judge.believes(beliefs[0]) {
		h.rest(ctx, h.ttl*[]time.Duration{1, 3}[h.number(2)]/2) // too late, now and then
		sent := time.Now()
		a, ok := h.send(ctx, p, renewPath, id(a))
		switch {
		case ok && a.status == http.StatusOK:
			for _, b := range beliefs {
				h.judge.extend(b, h.until(sent, a.left()))
			}
		case ok && a.status == http.StatusConflict:
			h.judge.end(beliefs)
			return
		}
	}
	if h.draw(0.7) {
		h.judge.end(beliefs)
		h.send(ctx, p, releasePath, id(a))
	}
}

// judge knows what all holders believe.
type judge struct {
	t      *testing.T
	mu     sync.Mutex
	keys   map[string][]*belief
	tokens map[string]int64
	grants int
}

type belief struct {
	holder string
	key    string
	token  int64
	until  time.Time
}

func newJudge(t *testing.T) *judge {
	return &judge{t: t, keys: make(map[string][]*belief), tokens: make(map[string]int64)}
}

// begin is a holder that has learnt that it holds the key. What is over by then it never believed.
func (j *judge) begin(holder, key string, token int64, until time.Time) *belief {
	j.mu.Lock()
	defer j.mu.Unlock()
	b := &belief{holder, key, token, until}
	if !time.Now().Before(until) {
		return b
	}
	j.grants++
	if token <= j.tokens[key] {
		j.t.Errorf("%s: %s has token %d after %d", key, holder, token, j.tokens[key])
	}
	j.tokens[key] = token
	j.keys[key] = append(j.keys[key], b)
	j.look(b)
	return b
}

// look finds who believes in the key of b besides.
func (j *judge) look(b *belief) {
	now := time.Now()
	for _, other := range j.keys[b.key] {
		if other != b && now.Before(other.until) && now.Before(b.until) {
			j.t.Errorf("%s at %v: %s until %v and %s until %v", b.key, now, b.holder, b.until, other.holder, other.until)
		}
	}
}

func (j *judge) extend(b *belief, until time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !time.Now().Before(b.until) && time.Now().Before(until) {
		j.keys[b.key] = append(j.keys[b.key], b) // it doubted, and is certain again
	}
	if until.After(b.until) {
		b.until = until
	}
	j.look(b)
}

func (j *judge) end(list []*belief) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, b := range list {
		b.until = time.Now()
	}
}

func (j *judge) believes(b *belief) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return time.Now().Before(b.until)
}
