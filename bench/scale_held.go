package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

func heldGrowing() *growing {
	return &growing{
		name: "held", title: "Locks held by one client", item: "locks held",
		about: "One client takes more and more locks, and keeps them. *One more* is `Lock` and `Unlock` of another key beside them, by one goroutine. *Client* is what the client's heap grew by for each lock since the step before, " +
			"the string of its key included; *store* is what the store's data grew by (Redis `used_memory`, memcached `bytes`, the size of etcd's data in use with its history, the JVM's heap after a collection, " +
			"the bytes of the files; `memory://` is in the client's heap). *Renew all* is one renewal of every lock, as the client does it, at once.",
		takes: func(string) bool { return true }, subjects: []string{"coord"}, measure: held,
		chief: "client_B", axis: "bytes in the client for each lock held",
		columns: []column{
			{"one_us", "one more, µs"},
			{"take_s", "taken a second, 64 goroutines"},
			{"client_B", "client, B each"},
			{"store_B", "store, B each"},
			{"goroutines", "goroutines"},
			{"renew_ms", "renew all, ms"},
			{"renew_commands", "commands of it"},
		},
		rules: []rule{
			{timed: true, figure: "one_us", what: "one more lock beside those held, µs", floor: 5, atMost: 3},
			{figure: "client_B", what: "client memory for a lock, B", floor: 1000, atMost: 2.5},
			{figure: "store_B", what: "store memory for a lock, B", floor: 64, grain: heapGrain, atMost: 2},
			{figure: "goroutines", what: "goroutines for a lock", total: true, floor: 0.5, atMost: 2.5},
			{timed: true, figure: "renew_ms", what: "renewal of a lock, ms", total: true, floor: 0.0005, atMost: 3},
			{figure: "renew_commands", what: "commands to renew a lock", total: true, floor: 0.02, atMost: 2.5},
		},
	}
}

// heapGrain is by how much the heap of a Java server differs from one collection to the next by itself: by what its
// threads hold in buffers, and by the last requests, which it keeps.
var heapGrain = map[string]float64{"zookeeper": 4 << 20}

// heldKey begins the keys that stay held, so that they can be told from others.
const heldKey = "held-"

// recordingStore is a store that notes what is held, so that all of it can be renewed at will.
type recordingStore struct {
	driver.Backend
	driver.Locker
	mu      sync.Mutex
	holds   []driver.Hold
	renewed atomic.Int64 // by the client
	calls   atomic.Int64
}

func (k *recordingStore) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := k.Locker.TryLock(ctx, key, r)
	if err == nil && strings.HasPrefix(key, heldKey) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.holds = append(k.holds, driver.Hold{Key: key, Request: r})
	}
	return g, err
}

func (k *recordingStore) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	k.renewed.Add(1)
	k.calls.Add(1)
	return k.Locker.Renew(ctx, key, r)
}

// NotifyLost passes on what the store can tell, which costs it something.
func (k *recordingStore) NotifyLost(fn func(key, id string, cause error)) {
	if n, ok := k.Locker.(driver.LossNotifier); ok {
		n.NotifyLost(fn)
	}
}

// batchKeeper is one of a store that renews in batches.
type batchKeeper struct {
	*recordingStore
	batch driver.BatchRenewer
}

func (k *batchKeeper) RenewAll(ctx context.Context, holds []driver.Hold) []driver.Renewal {
	k.renewed.Add(int64(len(holds)))
	k.calls.Add(1)
	return k.batch.RenewAll(ctx, holds)
}

// openRecording opens a client whose holds are noted, at most so many.
func openRecording(ctx context.Context, st *store, ttl time.Duration, most int) (*coord.Client, *recordingStore, error) {
	b, _, err := coord.OpenBackend(ctx, st.url())
	if err != nil {
		return nil, nil, err
	}
	locks, ok := b.(driver.Locker)
	if !ok {
		return nil, nil, errors.Join(errors.New("no locks"), b.Close())
	}
	k := &recordingStore{Backend: b, Locker: locks, holds: make([]driver.Hold, 0, most)}
	var wrapped driver.Backend = k
	if batch, ok := b.(driver.BatchRenewer); ok {
		wrapped = &batchKeeper{k, batch}
	}
	c, err := coord.New(wrapped, coord.WithLockDefaults(coord.TTL(ttl)))
	if err != nil {
		return nil, nil, errors.Join(err, b.Close())
	}
	return c, k, nil
}

// renewAll renews everything once, as the client does it, and tells how many are not held any more.
func (k *recordingStore) renewAll(ctx context.Context) (lost int, err error) {
	if batch, ok := k.Locker.(driver.BatchRenewer); ok {
		for _, r := range batch.RenewAll(ctx, k.holds) {
			if errors.Is(r.Err, driver.ErrNotHeld) {
				lost++
			} else if r.Err != nil {
				return lost, r.Err
			}
		}
		return lost, nil
	}
	var gone atomic.Int64
	err = inParallel(ctx, 16, len(k.holds), func(i int) error {
		_, err := k.Locker.Renew(ctx, k.holds[i].Key, k.holds[i].Request)
		if errors.Is(err, driver.ErrNotHeld) {
			gone.Add(1)
			return nil
		}
		return err
	})
	return int(gone.Load()), err
}

// inParallel calls fn with 0 to n-1, until one fails or ctx ends.
func inParallel(ctx context.Context, width, n int, fn func(i int) error) error {
	var next atomic.Int64
	errs := make(chan error, width)
	var wg sync.WaitGroup
	for range width {
		wg.Go(func() {
			for ctx.Err() == nil && len(errs) == 0 {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := fn(i); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// workers is how many goroutines fill a step.
const workers = 64

// hoard is a client that holds more and more.
type hoard struct {
	s      *scaler
	st     *store
	c      *coord.Client
	k      *recordingStore
	locks  []*coord.Lock
	before weight // with no holds
	last   weight // at the step before
}

// weight is what there is in memory with n items.
type weight struct {
	client, store float64
	goroutines, n int
}

// each notes what an item has added since an earlier weight.
func (w weight) each(f figures, since weight) {
	n := float64(w.n - since.n)
	f["client_B"] = max(w.client-since.client, 0) / n
	if w.store > 0 {
		f["store_B"] = max(w.store-since.store, 0) / n
	}
}

// weigh weighs the client and the store.
func weigh(ctx context.Context, st *store, n int) (w weight, err error) {
	w.n = n
	w.client, w.goroutines = heap()
	if w.store, err = st.memory(ctx); errors.Is(err, errUntold) {
		err = nil
	}
	return w, err
}

func held(ctx context.Context, s *scaler, st *store, series *Series) (err error) {
	steps := s.size.steps(st.name)
	most := steps[len(steps)-1]
	c, k, err := openRecording(ctx, st, s.size.ttl, most)
	if err != nil {
		return err
	}
	h := &hoard{s: s, st: st, c: c, k: k, locks: make([]*coord.Lock, most)}
	defer func() { closing(c) }()
	if err := h.warm(ctx); err != nil {
		return err
	}
	n := 0
	for _, step := range steps {
		f := figures{}
		var stopped bool
		if n, stopped, err = h.fill(ctx, n, step, f); err != nil {
			return err
		}
		if err := h.look(ctx, n, f); err != nil {
			return err
		}
		if step == most || stopped {
			if err := h.watch(ctx, n, f); err != nil {
				return err
			}
		}
		s.point(series, n, f)
		if stopped {
			series.Stopped = fmt.Sprintf("%d were not taken within %v", step, s.size.box)
			break
		}
	}
	return nil
}

// warm makes the connections, and takes the first measure.
func (h *hoard) warm(ctx context.Context) error {
	err := inParallel(ctx, workers, 4*workers, func(i int) error { return tryLock(ctx, coordLocks{h.c}, fmt.Sprintf("warm-%d", i)) })
	if err != nil {
		return err
	}
	h.before, err = weigh(ctx, h.st, 0)
	h.last = h.before
	return err
}

// fill takes locks until there are n, or the time for it is over.
func (h *hoard) fill(ctx context.Context, from, n int, f figures) (got int, stopped bool, err error) {
	began := time.Now()
	end := began.Add(h.s.size.box)
	var taken atomic.Int64
	err = inParallel(ctx, workers, n-from, func(i int) error {
		if time.Now().After(end) {
			return nil
		}
		l, err := h.c.Lock(ctx, fmt.Sprintf("%s%07d", heldKey, from+i))
		if err == nil {
			h.locks[from+i] = l
			taken.Add(1)
		}
		return err
	})
	f["take_s"] = float64(taken.Load()) / time.Since(began).Seconds()
	got = from + int(taken.Load())
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return got, got < n, err
}

// look measures what n holds cost.
func (h *hoard) look(ctx context.Context, n int, f figures) error {
	w, err := weigh(ctx, h.st, n)
	if err != nil {
		return err
	}
	w.each(f, h.last)
	h.last = w
	f["goroutines"] = float64(max(w.goroutines-h.before.goroutines, 0))
	if err := h.oneMore(ctx, f); err != nil {
		return err
	}
	return h.renew(ctx, n, f)
}

// renew renews all, several times, as the client may be at it by itself. The quickest is told.
func (h *hoard) renew(ctx context.Context, n int, f figures) error {
	const times, enough = 3, 3 * time.Second
	for i, all := 0, time.Now(); i < times && (i == 0 || time.Since(all) < enough); i++ {
		before, err := h.st.count()
		if err != nil {
			return err
		}
		began, server, own := time.Now(), cpuOf(h.st.pid), h.k.renewed.Load()
		lost, err := h.k.renewAll(ctx)
		if err != nil {
			return fmt.Errorf("renew all: %w", err)
		}
		f["lost"] = max(f["lost"], float64(lost))
		took := millis(time.Since(began))
		renewed := float64(n) + float64(h.k.renewed.Load()-own)
		worked := micros(cpuOf(h.st.pid)-server) / renewed
		after, err := h.st.count()
		if err != nil {
			return err
		}
		asked := after.minus(before).requests() * float64(n) / renewed
		if i == 0 || took < f["renew_ms"] {
			f["renew_ms"], f["renew_server_us"] = took, worked
		}
		if asked > 0 && (i == 0 || asked < f["renew_commands"]) {
			f["renew_commands"] = asked
		}
	}
	return nil
}

// oneMore locks another key beside those that are held.
func (h *hoard) oneMore(ctx context.Context, f figures) error {
	const most = 300
	var took []float64
	for end := time.Now().Add(400 * time.Millisecond); len(took) < most && (len(took) < 5 || time.Now().Before(end)); {
		began := time.Now()
		if err := tryLock(ctx, coordLocks{h.c}, fmt.Sprintf("more-%d", len(took))); err != nil {
			return err
		}
		took = append(took, micros(time.Since(began)))
	}
	slices.Sort(took)
	f["one_us"] = took[len(took)/2]
	return nil
}

// watch lets the client renew by itself until every hold has outlived its first lease, and
// tells what that took and whether one was lost. Then it closes the client.
func (h *hoard) watch(ctx context.Context, n int, f figures) error {
	before, err := h.st.count()
	if err != nil {
		return err
	}
	renewed, calls := h.k.renewed.Load(), h.k.calls.Load()
	client, server, began := ownCPU(), cpuOf(h.st.pid), time.Now()
	select {
	case <-time.After(h.s.size.ttl + time.Second):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	took := time.Since(began)
	f["watch_client_cpu"] = (ownCPU() - client).Seconds() / took.Seconds()
	f["watch_server_cpu"] = (cpuOf(h.st.pid) - server).Seconds() / took.Seconds()
	f["watch_renewed_s"] = float64(h.k.renewed.Load()-renewed) / took.Seconds()
	f["watch_calls_s"] = float64(h.k.calls.Load()-calls) / took.Seconds()
	after, err := h.st.count()
	if err != nil {
		return err
	}
	f["watch_commands_s"] = after.minus(before).requests() / took.Seconds()
	lost := 0
	for _, l := range h.locks[:n] {
		if l != nil && l.Err() != nil {
			lost++
		}
	}
	f["lost"] = max(f["lost"], float64(lost))
	began = time.Now()
	if err := h.c.Close(); err != nil {
		return err
	}
	f["close_ms"] = millis(time.Since(began))
	return nil
}
