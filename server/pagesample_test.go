package server

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
)

// slowStore counts what it is asked, answers late, not at all, or lists no keys.
type slowStore struct {
	driver.Backend
	unlisted bool
	late     time.Duration
	lists    atomic.Int32
	atOnce   atomic.Int32
	busy     atomic.Int32
	hung     atomic.Bool
}

var lastSlow *slowStore // of a test that is not parallel

func init() {
	driver.Register("slow", func(_ context.Context, u *url.URL) (driver.Backend, error) {
		late, err := time.ParseDuration(u.Query().Get("late"))
		lastSlow = &slowStore{Backend: memory.NewStore().Open(), late: late, unlisted: u.Query().Has("unlisted")}
		return lastSlow, err
	})
}

func (s *slowStore) Info() driver.Info {
	info := s.Backend.Info()
	if s.unlisted {
		info.Claims = info.Claims.Without(driver.List)
	}
	return info
}

// wait is what each request takes.
func (s *slowStore) wait(ctx context.Context) error {
	n := s.busy.Add(1)
	defer s.busy.Add(-1)
	s.atOnce.Store(max(s.atOnce.Load(), n))
	late := s.late
	if s.hung.Load() {
		late = time.Hour
	}
	select {
	case <-time.After(late):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slowStore) Ping(ctx context.Context) error { return s.wait(ctx) }

func (s *slowStore) Inspect(ctx context.Context, key string) (driver.Holder, error) {
	if err := s.wait(ctx); err != nil {
		return driver.Holder{}, err
	}
	return s.Backend.Inspect(ctx, key)
}

func (s *slowStore) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	s.lists.Add(1)
	return func(yield func(string, error) bool) {
		if err := s.wait(ctx); err != nil {
			yield("", err)
			return
		}
		s.Backend.List(ctx, prefix)(yield)
	}
}

// watching opens n streams of the page, which end and give what they have sent when leave is called.
func (k *kit) watching(n int, path string) (leave func() []string) {
	ctx, cancel := context.WithCancel(k.t.Context())
	sent := make([]string, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
			r.Host = "localhost"
			w := httptest.NewRecorder()
			k.ServeHTTP(w, r)
			sent[i] = w.Body.String()
		})
	}
	return func() []string { cancel(); all.Wait(); return sent }
}

// However many look, the store is asked by one, for the keys once a second; and not at all when nobody looks.
func TestPageAsksForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "url: 'slow://?late=10ms'")
		k.post(acquirePath, `{"key":"job","ttl_ms":3600000}`).ok(t)
		leave := k.watching(50, "/page/events")
		time.Sleep(60 * time.Second)
		for i, sent := range leave() {
			if !strings.Contains(sent, "event: locks\n") || !strings.Contains(sent, "job") {
				t.Fatalf("stream %d: %s", i, sent)
			}
			if n := strings.Count(sent, "event: locks\n"); n > 3 {
				t.Errorf("stream %d: the locks came %d times, though nothing has changed", i, n)
			}
		}
		time.Sleep(sampleTime) // what has begun ends by itself
		lists := lastSlow.lists.Load()
		if lists < 50 || lists > 62 || lastSlow.atOnce.Load() != 1 {
			t.Errorf("%d lists in 60 s, %d requests at once", lists, lastSlow.atOnce.Load())
		}
		time.Sleep(time.Hour)
		if n := lastSlow.lists.Load() - lists; n != 0 {
			t.Errorf("%d lists while nobody looks", n)
		}
		for range 100 { // who loads the page again and again
			_ = k.page("/")
			time.Sleep(10 * time.Millisecond)
		}
		if n := lastSlow.lists.Load() - lists; n > 3 {
			t.Errorf("%d lists in a second", n)
		}
		k.post(acquirePath, `{"key":"job","ttl_ms":3600000}`).ok(t)
		lastSlow.late = 200 * time.Millisecond
		leave = k.watching(1, "/page/events")
		lists = lastSlow.lists.Load()
		time.Sleep(60 * time.Second)
		leave()
		if n := lastSlow.lists.Load() - lists; n > 21 {
			t.Errorf("a store that needs 0.6 s is asked %d times a minute", n)
		}
	})
}

// A store that does not answer costs the page a moment, and the page says so beside what it knows.
func TestPageStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "url: 'slow://?late=1ms'")
		k.post(acquirePath, `{"key":"job","ttl_ms":3600000}`).ok(t)
		_ = k.page("/")
		lastSlow.hung.Store(true)
		leave := k.watching(1, "/page/events")
		time.Sleep(5 * time.Second)
		began := time.Now()
		has(t, k.page("/"), true, "No answer", "The store has not answered since", "job")
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("the page took %v", took)
		}
		a := k.post(acquirePath, `{"key":"other"}`).ok(t)
		k.post(releasePath, id(a)).ok(t)
		lastSlow.hung.Store(false)
		time.Sleep(10 * time.Second)
		sent := leave()[0]
		_, after, told := strings.Cut(sent, "No answer")
		if !told || !strings.Contains(after, "Live") || lastSlow.atOnce.Load() != 1 {
			t.Errorf("%d at once; the stream has sent %s", lastSlow.atOnce.Load(), sent)
		}
	})
}

// Of very many keys the page shows some, says so, and finds the others.
func TestPageBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "")
		for i := range maxListed + 200 {
			if _, err := k.client.TryLock(t.Context(), fmt.Sprintf("job/%04d", i), coord.NoRenew(), coord.TTL(time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		all := k.page("/")
		has(t, all, true, "100 of 1000 holds are shown", "There are more keys than these.", "<dt>Holds</dt><dd>1000+</dd>")
		for i := range maxListed + 200 {
			if key := fmt.Sprintf("job/%04d", i); i%173 == 0 {
				has(t, k.page("/?q="+key), true, ">"+key+"<")
				has(t, k.page("/page/key?key="+key), true, "Lease left")
			}
		}
	})
}

// Of a store that lists no keys the page shows what this server holds, and any key that is named.
func TestPageUnlisted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "url: 'slow://?late=0s&unlisted'")
		a := k.post(acquirePath, `{"keys":["ours/1","ours/2"]}`).ok(t)
		if _, err := k.client.TryLock(t.Context(), "theirs", coord.NoRenew()); err != nil {
			t.Fatal(err)
		}
		page := k.page("/")
		has(t, page, true, ">ours/1<", ">ours/2<", "cannot list keys")
		has(t, page, false, "theirs")
		has(t, k.page("/?q=theirs"), true, ">theirs<")
		k.post(releasePath, id(a)).ok(t)
		time.Sleep(time.Second)
		has(t, k.page("/"), true, "Nothing is held.")
	})
}

// corrupt shows nothing of one key.
func TestPageUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "url: corrupt://")
		k.post(acquirePath, `{"key":"bad"}`).ok(t)
		k.post(acquirePath, `{"key":"good"}`).ok(t)
		has(t, k.page("/"), true, "not readable", "<dt>Holds</dt><dd>2</dd>", ">good<")
	})
}

type corruptStore struct{ driver.Backend }

func init() {
	driver.Register("corrupt", func(context.Context, *url.URL) (driver.Backend, error) {
		return corruptStore{memory.NewStore().Open()}, nil
	})
}

func (s corruptStore) Inspect(ctx context.Context, key string) (driver.Holder, error) {
	if key == "bad" {
		return driver.Holder{}, fmt.Errorf("%w: what is this", driver.ErrCorrupt)
	}
	return s.Backend.Inspect(ctx, key)
}

// Renewals send the ends of leases alone.
func TestPageEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "")
		k.post(acquirePath, `{"key":"job","ttl_ms":3600000}`).ok(t)
		l, err := k.client.TryLock(t.Context(), "renewed", coord.TTL(15*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		leave := k.watching(1, "/page/events")
		time.Sleep(30 * time.Second)
		sent := leave()[0]
		if n, ends := strings.Count(sent, "event: locks\n"), strings.Count(sent, "event: ends\n"); n > 2 || ends < 6 || ends > 12 {
			t.Errorf("locks %d times, ends %d times: %s", n, ends, sent)
		}
		if err := l.Unlock(t.Context()); err != nil && !errors.Is(err, coord.ErrNotHeld) {
			t.Error(err)
		}
	})
}

// Those who look do not keep programs from locks, and are not without a bound.
func TestPageLookersBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "serve: {max_requests: 3}")
		leave := k.watching(3, "/page/events")
		synctest.Wait()
		k.post(acquirePath, `{"key":"a"}`).ok(t)
		if w := k.visit(http.MethodGet, "/page/events", nil); w.Code != http.StatusTooManyRequests {
			t.Errorf("a fourth: %d", w.Code)
		}
		leave()
	})
}

// Limits that change all the time are sent now and then.
func TestPageLimitsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "limits: {supplier: 1000/1h}")
		leave := k.watching(1, "/page/events")
		for range 60 {
			k.post("/v1/limits/take", `{"key":"supplier"}`).ok(t)
			time.Sleep(time.Second)
		}
		if n := strings.Count(leave()[0], "event: limits\n"); n < 11 || n > 14 {
			t.Errorf("the limits came %d times in 60 s", n)
		}
	})
}
