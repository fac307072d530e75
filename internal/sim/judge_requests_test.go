package sim

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/coordgo/coord/driver"
)

// requests are what clients have asked for, by id.
type requests struct {
	byID  map[string]*request
	queue map[string][]*request // fair ones, in the store's queue of a key, as they came
	// breaks are when an operator last revoked a hold of a key.
	breaks map[string]time.Time
	heads  map[string]head // of shared keys
	kept   map[string]keep // by MinHold
}

// request is one acquisition, and its hold.
type request struct {
	l        *link
	caller   string    // the worker that asks, if it does so itself
	last     time.Time // a call of it began or ended
	onWay    int       // calls
	released bool      // an Unlock was sent
	gone     bool      // an Unlock was made
	leased   time.Time // its lease began or was renewed
	ttl      time.Duration
	token    int64     // of its last grant
	granted  time.Time // which was then
	key      string
	fair     bool
	came     time.Time // to the queue
	reported bool
}

func newRequests() requests {
	return requests{map[string]*request{}, map[string][]*request{}, map[string]time.Time{}, map[string]head{}, map[string]keep{}}
}

// head is who was refused last as the head of the queue for a shared key.
type head struct {
	id string
	at time.Time
}

// keep says that a key is taken until then, whatever becomes of the hold.
type keep struct {
	id    string
	until time.Time
}

// refused notes a refusal, which makes the head of a queue one.
func (w *world) refused(l *link, key string, r driver.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h := w.heads[key]; r.Share.Head && (h.id == r.ID || time.Since(h.at) >= driver.HeadFor) {
		w.heads[key] = head{r.ID, time.Now()}
		if w.plan.faults.die > 0 && w.draw(l.name, "doom").IntN(100) == 0 { // some die while they are the head
			select {
			case l.doom <- struct{}{}:
			default:
			}
		}
	}
}

// withdrawn notes that the store has made an Unlock of id.
func (w *world) withdrawn(key, id string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if q := w.byID[id]; q != nil && err == nil {
		q.gone = true
	}
	if w.heads[key].id == id {
		delete(w.heads, key)
	}
}

// judgeHead wants nobody granted a key while the head of its queue waits. w.mu is held.
func (w *world) judgeHead(l *link, key string, r driver.Request) {
	if h, ok := w.heads[key]; ok && r.Share.Mode != driver.Exclusive && h.id != r.ID && time.Since(h.at) < driver.HeadFor-time.Millisecond {
		w.violate("order", "%s is granted %q while another is the head of its queue", l.name, key)
	}
	if w.heads[key].id == r.ID {
		delete(w.heads, key)
	}
}

// keeps notes that a hold has a MinHold, from its grant.
func (w *world) keeps(key string, token int64, d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, q := range w.byID {
		if q.token == token && q.key == key {
			w.kept[key] = keep{id, q.granted.Add(d)}
		}
	}
}

// request gives the one of id. w.mu is held.
func (w *world) request(l *link, id string) *request {
	q := w.byID[id]
	if q == nil {
		q = &request{l: l}
		w.byID[id] = q
	}
	return q
}

// sent notes that a call begins. over is for its two ends: there and with the caller. A call for the id of another client is none of its own: a signal ends
// the place of another's waiter.
func (w *world) sent(ctx context.Context, l *link, id string) (over func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.request(l, id)
	if id == "" || q.l != l {
		return func() {}
	}
	if caller, ok := ctx.Value(callerKey{}).(string); ok {
		q.caller = caller
	}
	q.last = time.Now()
	q.onWay += 2
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		q.last = time.Now()
		q.onWay--
	}
}

// noteGrant notes a grant, which is the first of its id or is repeated. w.mu is held.
func (w *world) noteGrant(l *link, key string, r driver.Request, g driver.Grant) {
	now := time.Now()
	q := w.request(l, r.ID)
	q.leased, q.ttl = now, r.TTL
	if died := l.diedAt(); !died.IsZero() && now.Sub(died) > grace+time.Second {
		w.violate("dead", "%q is granted to %s, which died %v ago", key, l.name, now.Sub(died))
	}
	if q.token == g.Token {
		return
	}
	q.token, q.granted, q.key, q.gone = g.Token, now, key, false
	if k := w.kept[key]; k.id != r.ID && now.Before(k.until) {
		w.violate("kept", "%s is granted %q, which MinHold keeps taken for %v more", l.name, key, k.until.Sub(now))
	}
	w.judgeHead(l, key, r)
	for _, other := range w.queue[key] {
		if other != q && (q.came.IsZero() || other.came.Before(q.came)) {
			w.violate("order", "%s is granted %q before %s, which is fair and came first", l.name, key, other.l.name)
		}
	}
}

// queued notes a wait in the queue of the store.
func (w *world) queued(key string, r driver.Request) (leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.byID[r.ID]
	if q == nil || q.fair {
		return func() {}
	}
	if q.came = time.Now(); !r.Fair {
		return func() {}
	}
	q.fair = true
	w.queue[key] = append(w.queue[key], q)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		q.fair, q.came = false, time.Time{}
		w.queue[key] = slices.DeleteFunc(w.queue[key], func(o *request) bool { return o == q })
	}
}

// renews judges when a renewal is sent.
func (w *world) renews(l *link, key string, r driver.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.byID[r.ID]
	if q == nil {
		w.violate("renewal", "%s renews %q, which it never asked for", l.name, key)
		return
	}
	if q.released {
		w.violate("renewal", "%s renews %q after it gave it back", l.name, key)
	}
	if dt := time.Since(q.leased); w.plan.calm() && (r.Share.Mode == driver.Exclusive || r.Share.Mode == driver.Permits) && (dt < r.TTL/4 || dt > r.TTL/3+20*time.Millisecond) {
		w.violate("renewal", "%s renews %q after %v of a lease of %v", l.name, key, dt, r.TTL)
	}
}

func (w *world) renewed(r driver.Request, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if q := w.byID[r.ID]; q != nil && err == nil {
		if q.gone {
			w.violate("renewal", "%s has a hold renewed that it gave back", q.l.name)
		}
		q.leased, q.ttl = time.Now(), r.TTL
	}
}

// releases notes that an Unlock is sent.
func (w *world) releases(l *link, id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if q := w.byID[id]; q != nil && q.l == l {
		q.released = true
	}
}

// broken notes that an operator revokes a hold.
func (w *world) broken(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.breaks[key] = time.Now()
}

// excused reports whether a hold of key may be lost without a fault: an operator may have revoked it. w.mu is held.
func (w *world) excused(key string) bool {
	last, ok := w.breaks[key]
	return ok && time.Since(last) < time.Minute
}

// suffixes are those of the keys behind one of the application: locks, read/write locks, semaphores, conditions.
const (
	ofReaders    = "\x00r"
	ofSemaphore  = "\x00s"
	ofConditions = "\x00c"
)

func (w *world) allKeys() (keys []string) {
	for _, key := range w.plan.names() {
		keys = append(keys, key, key+ofReaders, key+ofSemaphore, key+ofConditions)
	}
	return keys
}

// holdersOf gives who has key at the store, as a lock or as a shared key.
func (w *world) holdersOf(key string) (all []driver.Holder) {
	if strings.Contains(key, "\x00") {
		all, _ = w.raw.Shared().Holders(context.Background(), key)
		slices.SortFunc(all, func(a, b driver.Holder) int { return cmp.Compare(a.Token, b.Token) })
	}
	if h, err := w.raw.Inspect(context.Background(), key); err == nil {
		all = append(all, h)
	}
	return all
}
