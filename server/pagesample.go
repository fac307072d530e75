package server

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
)

// sampler asks the store for all who look at the page, and only while somebody looks. It has one request under way at a
// time and lists keys once a second at most. Then it rests for four times as long as the store took. So what the page
// costs the store does not grow with the number of those who look.
type sampler struct {
	s         *Server
	decisions *Decisions

	mu      sync.Mutex
	lookers map[sight]int       // by what they look at
	listed  map[sight]time.Time // when that was asked for last
	seen    scene               // what it refers to is never written again
	news    chan struct{}       // closed when seen changes
	next    time.Time           // when the store may be asked again
	stop    context.CancelFunc  // ends the goroutine that asks; nil if nobody looks
	ended   chan struct{}       // closed when that goroutine has ended
}

// sight is one key, or all that begin so.
type sight struct {
	text string
	key  bool
}

// scene is what the store has told.
type scene struct {
	pinged    time.Time // zero: the store was not asked yet
	pingErr   error
	failing   time.Time // since when it does not answer; zero: it answers
	checked   time.Time
	findings  []driver.Finding
	checkErr  error
	limits    limitsSeen
	locks     map[sight]locksSeen
	decisions rates
}

// The bounds of what the sampler asks.
const (
	sampleEvery = time.Second
	restAtMost  = 30 * time.Second
	answersIn   = 2 * time.Second  // else the store is said not to answer
	sampleTime  = 10 * time.Second // for all limits, and for all locks
	checkEvery  = time.Minute
)

func newSampler(s *Server, d *Decisions) *sampler {
	m := &sampler{
		s: s, decisions: d, lookers: make(map[sight]int), listed: make(map[sight]time.Time),
		news: make(chan struct{}), ended: make(chan struct{}),
	}
	close(m.ended)
	return m
}

// look makes the sampler ask for the keys that begin so, until leave is called.
func (m *sampler) look(prefix sight) (leave func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lookers[prefix]++
	if m.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		before := m.ended
		m.stop, m.ended = stop, make(chan struct{})
		go m.run(ctx, before, m.ended)
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.lookers[prefix]--; m.lookers[prefix] == 0 {
			delete(m.lookers, prefix)
		}
		if len(m.lookers) == 0 {
			m.stop()
			m.stop = nil
		}
	}
}

// now is what is known, and a channel that is closed when more is.
func (m *sampler) now() (scene, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen, m.news
}

// await waits until the store was asked for the keys that begin so, or ctx ends. What was asked before will do while the
// store rests, unless it has to be fresh.
func (m *sampler) await(ctx context.Context, prefix sight, fresh bool) scene {
	since := time.Now()
	for {
		m.mu.Lock()
		seen, news, resting := m.seen, m.news, m.next.After(time.Now())
		m.mu.Unlock()
		if of, ok := seen.locks[prefix]; ok && (of.asked.After(since) || !fresh && (resting || of.asked.Equal(since))) {
			return seen
		}
		select {
		case <-news:
		case <-ctx.Done():
			return seen
		}
	}
}

// tell makes something known.
func (m *sampler) tell(change func(*scene)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.seen)
	close(m.news)
	m.news = make(chan struct{})
}

// run asks again and again until ctx ends. It begins when the goroutine before it has ended.
func (m *sampler) run(ctx context.Context, before <-chan struct{}, ended chan<- struct{}) {
	defer close(ended)
	<-before
	for {
		m.mu.Lock()
		rest := time.NewTimer(time.Until(m.next))
		m.mu.Unlock()
		select {
		case <-rest.C:
		case <-ctx.Done():
			rest.Stop()
			return
		}
		began := time.Now()
		answered := m.round(context.WithoutCancel(ctx)) // what has begun is of use to who comes next; it has bounds of its own
		took := time.Since(began)
		pause := sampleEvery - took
		if answered {
			pause = max(pause, min(4*took, restAtMost))
		}
		m.mu.Lock()
		m.next = time.Now().Add(pause)
		m.mu.Unlock()
	}
}

// round asks once. What was known stays known when the store does not answer, and the error is told beside it.
func (m *sampler) round(ctx context.Context) (answered bool) {
	defer func() {
		if p := recover(); p != nil {
			err := m.s.panicked(p)
			m.tell(func(seen *scene) { seen.ping(err) })
		}
	}()
	err := within(ctx, answersIn, m.s.client.Ping)
	if seen, _ := m.now(); err != nil || seen.pingErr != nil || seen.pinged.IsZero() {
		m.tell(func(seen *scene) { seen.ping(err) })
	}
	all, of := m.decisions.recent()
	limits := m.limits(ctx, of)
	locks := m.locks(ctx, m.due(), err == nil)
	m.tell(func(seen *scene) {
		seen.decisions, seen.limits, seen.locks = all, limits.after(seen.limits), m.kept(locks)
	})
	if err == nil {
		m.check(ctx)
	}
	return err == nil && limits.err == nil && locks.err == nil
}

// ping notes what came of one.
func (s *scene) ping(err error) {
	s.pinged, s.pingErr = time.Now(), err
	switch {
	case err == nil:
		s.failing = time.Time{}
	case s.failing.IsZero():
		s.failing = s.pinged
	}
}

// check compares the store's settings with what coord needs, now and then.
func (m *sampler) check(ctx context.Context) {
	if seen, _ := m.now(); time.Since(seen.checked) < checkEvery {
		return
	}
	var findings []driver.Finding
	err := within(ctx, sampleTime, func(ctx context.Context) (err error) {
		findings, err = m.s.client.Check(ctx)
		return err
	})
	m.tell(func(seen *scene) { seen.checked, seen.findings, seen.checkErr = time.Now(), findings, err })
}

// within is do with an end.
func within(ctx context.Context, bound time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	return do(ctx)
}

// due is how the keys begin that were not listed for the longest time, of those that somebody looks at.
func (m *sampler) due() (prefix sight) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.listed, func(prefix sight, _ time.Time) bool { return m.lookers[prefix] == 0 })
	if wanted := slices.Collect(maps.Keys(m.lookers)); len(wanted) > 0 {
		prefix = slices.MinFunc(wanted, func(a, b sight) int {
			return cmp.Or(m.listed[a].Compare(m.listed[b]), cmp.Compare(a.text, b.text))
		})
	}
	m.listed[prefix] = time.Now()
	return prefix
}

// kept is what is known of locks with what was just seen, and without what nobody looks at. It is called with m.mu locked.
func (m *sampler) kept(now locksSeen) map[sight]locksSeen {
	kept := map[sight]locksSeen{now.prefix: now.after(m.seen.locks[now.prefix])}
	for prefix, known := range m.seen.locks {
		if m.lookers[prefix] > 0 && prefix != now.prefix {
			kept[prefix] = known
		}
	}
	return kept
}
