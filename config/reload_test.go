package config_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/rules"
)

// opened opens a file of that text on a store of the test's own, and gives the file's path
// and how to write another text.
func opened(t *testing.T, env environ, text string) (c *config.Client, rewrite func(text string)) {
	t.Helper()
	url := "url: memory://" + rand.Text() + "\n"
	path := file(t, url+text)
	cfg, err := config.LoadEnv(t.Context(), path, env.lookup)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = cfg.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c, func(text string) { t.Helper(); write(t, path, url+text) }
}

// spend takes permits of a named limit until it denies, and gives how many there were.
func spend(t *testing.T, c *config.Client, name string, most int) int {
	t.Helper()
	limit, err := c.Limit(name)
	if err != nil {
		t.Fatal(err)
	}
	for n := range most {
		r, err := c.Allow(t.Context(), name, limit)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Allowed {
			return n
		}
	}
	return most
}

// A limit that changes keeps what it has counted, as far as clause R3 says so.
func TestReloadKeepsDebts(t *testing.T) {
	for _, test := range []struct {
		before, after string
		spent, left   int
	}{
		{"10/24h", "10/24h", 6, 4},
		{"10/24h", "15/24h", 6, 9},
		{"10/24h", "8/24h", 6, 2},
		{"10/24h", "3/24h", 6, 0},
		{"10/24h burst=10", "10/24h burst=8", 6, 2},
		{"10/24h burst=10", "20/48h burst=7", 6, 1}, // the same rate
		{"10/24h", "10/48h", 6, 10},                 // another window
		{"10/24h", "10/24h burst=5", 6, 5},          // another algorithm
		{"10/24h burst=10", "9/24h burst=8", 6, 8},  // another rate of a bucket
	} {
		c, rewrite := opened(t, nil, "limits: {a: "+test.before+"}\n")
		if n := spend(t, c, "a", test.spent); n != test.spent {
			t.Fatalf("%s: %d permits", test.before, n)
		}
		rewrite("limits: {a: " + test.after + "}\n")
		if err := c.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := spend(t, c, "a", 100); n != test.left {
			t.Errorf("%s, %d spent, then %s: %d permits are left, want %d", test.before, test.spent, test.after, n, test.left)
		}
	}
}

// Rules change with a reload, and their accounts stay.
func TestReloadRules(t *testing.T) {
	const one = "limits: {a: 5/24h}\nrules: [{name: r, subject: user, limits: [a]}, {name: s, match: {path: /s}, limits: [2/24h]}]\n"
	c, rewrite := opened(t, nil, one)
	// admitted is how many of ten requests are.
	admitted := func(path string) (n int) {
		t.Helper()
		for range 10 {
			d, err := c.Rules().Allow(t.Context(), c, &rules.Request{Method: "GET", Path: path, User: "ann"})
			if err != nil {
				t.Fatal(err)
			}
			if d.Allowed {
				n++
			}
		}
		return n
	}
	if n := admitted("/s"); n != 2 {
		t.Errorf("%d requests of rule s, want 2", n)
	}
	rewrite(strings.NewReplacer("5/24h", "6/24h", "2/24h", "3/24h").Replace(one))
	if err := c.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := admitted("/s"); n != 1 {
		t.Errorf("%d requests of rule s with one permit more, want 1", n)
	}
	if n := admitted("/"); n != 3 {
		t.Errorf("%d requests under limit a, want 3: three of six permits were taken before", n)
	}
	rewrite("rules: []\n")
	if err := c.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := admitted("/"); n != 10 {
		t.Errorf("%d requests without rules, want all 10", n)
	}
	if _, err := c.Limit("a"); !errors.Is(err, coord.ErrInvalid) {
		t.Errorf("Limit of a name that is gone: %v", err)
	}
}

// A reload that fails says why and changes nothing.
func TestReloadRefuses(t *testing.T) {
	const text = "prefix: a/\nlock: {ttl: 7s, max_hold: 1h}\nlimits: {a: 5/1m}\nrules: [{name: r, limits: [a]}]\n"
	env := environ{}
	c, rewrite := opened(t, env, text)
	before := c.Config()
	path := strings.TrimSuffix(c.Config().Values()[0].From, ":1")
	for _, test := range []struct{ text, want string }{
		{text + "limts: {}", `FILE:6: unknown key "limts": want one of url, quorum, prefix, require, failure_policy, best_effort, overrides, lock, serve, limits, rules`},
		{strings.Replace(text, "[a]", "[b]", 1), `FILE:5: rules.r.limits: no limit "b": want one of a`},
		{strings.Replace(text, "7s", "8s", 1), "FILE:3: lock.ttl: 8s, was 7s: only limits and rules change without a restart"},
		{strings.Replace(text, ", max_hold: 1h", "", 1), "FILE: lock.max_hold: unbounded, was 1h0m0s: only limits and rules change without a restart"},
		{strings.Replace(text, "a/", "b/", 1), "FILE:2: prefix: b/, was a/: only limits and rules change without a restart"},
		{text + "failure_policy: open\n", "FILE:6: failure_policy: open, was closed: only limits and rules change without a restart"},
		{text + "best_effort: true\n", "FILE:6: best_effort: true, was false: only limits and rules change without a restart"},
		{text + "require: [fair]\n", "FILE:6: require: fair, was none: only limits and rules change without a restart"},
	} {
		rewrite(strings.Replace(test.text, "5/1m", "6/1m", 1))
		err := c.Reload(t.Context())
		if err == nil || strings.ReplaceAll(err.Error(), path, "FILE") != test.want || !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("%s\n got: %v\nwant: %s", test.text, err, test.want)
		}
		if c.Config() != before {
			t.Fatal("the configuration has changed")
		}
	}

	write(t, path, "url: {locks: 'memory://', limits: 'memory://'}\n"+text)
	const two = "FILE:1: url.locks: memory://, was not set: only limits and rules change without a restart"
	if err := c.Reload(t.Context()); err == nil || strings.ReplaceAll(err.Error(), path, "FILE") != two {
		t.Errorf("two stores instead of one: %v", err)
	}
	rewrite(text)
	env["COORD_LOCK_TTL"] = "9s"
	const changed = "COORD_LOCK_TTL: 9s, was 7s: only limits and rules change without a restart"
	if err := c.Reload(t.Context()); err == nil || err.Error() != changed {
		t.Errorf("another environment: %v", err)
	}
	delete(env, "COORD_LOCK_TTL")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := c.Reload(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if l, err := c.Limit("a"); err != nil || l != coord.PerMinute(5) {
		t.Errorf("Limit = %v, %v", l, err)
	}
	rewrite(text)
	if err := c.Reload(t.Context()); err != nil {
		t.Errorf("the first text again: %v", err)
	}
}

// A URL with another password in it is another URL; the message shows neither. One that came
// from elsewhere stays.
func TestReloadURL(t *testing.T) {
	path := file(t, "url: redis://u:s3cret@h\n")
	c, err := config.LoadEnv(t.Context(), path, environ{}.lookup)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetURL("--url", "memory://"); err != nil {
		t.Fatal(err)
	}
	client, err := c.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	write(t, path, "url: redis://u:s3cret@elsewhere\nlimits: {a: 1/1s}\n")
	if err := client.Reload(t.Context()); err != nil {
		t.Error(err)
	}
	if l, err := client.Limit("a"); err != nil || l != coord.PerSecond(1) {
		t.Errorf("Limit = %v, %v", l, err)
	}

	dir := filepath.ToSlash(t.TempDir())
	text := "url: {locks: 'file://" + dir + "/a', limits: 'file://" + dir + "/b'}\n"
	write(t, path, text)
	two, err := config.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer two.Close()
	write(t, path, strings.Replace(text, "/b'", "/b?token=s3cret'", 1))
	err = two.Reload(t.Context())
	if want := path + ":1: url.limits: file://" + dir + "/b?xxxxx, was file://" + dir + "/b: only limits and rules change without a restart"; err == nil || err.Error() != want {
		t.Errorf("\n got: %v\nwant: %s", err, want)
	}
}

func TestReloadWithoutFile(t *testing.T) {
	c, err := config.Parse("coord.yaml", []byte("url: memory://\n"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := c.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	const want = "coord.yaml: no file to reload: the configuration was not loaded from one"
	if err := client.Reload(t.Context()); err == nil || err.Error() != want {
		t.Errorf("Reload: %v, want %s", err, want)
	}
}

// Whoever asks while others reload sees one file or the other: limits and rules that belong
// together.
func TestReloadConcurrently(t *testing.T) {
	texts := []string{
		"limits: {a: 1000000/1h}\nrules: [{name: r, limits: [a]}]\n",
		"limits: {a: 2000000/1h}\nrules: [{name: r, limits: [a]}]\n",
	}
	c, rewrite := opened(t, nil, texts[0])
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				now := c.Config()
				if l := now.Rules.Rules()[0].Limits[0].Limit; l != now.Limits["a"] {
					t.Errorf("rule with %v beside limit %v", l, now.Limits["a"])
				}
				if d, err := c.Rules().Allow(t.Context(), c, &rules.Request{Path: "/"}); err != nil || !d.Allowed {
					t.Errorf("Allow = %+v, %v", d, err)
				}
			}
		})
	}
	for i := range 20 {
		rewrite(texts[i%2])
		var reloads sync.WaitGroup
		for range 3 {
			reloads.Go(func() {
				if err := c.Reload(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		reloads.Wait()
		if l, err := c.Limit("a"); err != nil || l.Rate != (i%2+1)*1000000 {
			t.Errorf("after a reload: %v, %v", l, err)
		}
	}
	close(done)
	wg.Wait()
}

// Watch takes a change once the file is at rest, reports once of each, and goes on after a
// mistake.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		const period = time.Minute
		path := filepath.Join(dir, "coord.yaml")
		put := func(text string) { t.Helper(); write(t, path, "url: memory://watch\n"+text) }
		put("limits: {a: 1/1m}\n")
		cfg, err := config.LoadEnv(t.Context(), path, environ{}.lookup)
		if err != nil {
			t.Fatal(err)
		}
		c, err := cfg.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var (
			mu      sync.Mutex
			reports []error
		)
		report := func(err error) {
			mu.Lock()
			defer mu.Unlock()
			reports = append(reports, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			c.Watch(ctx, period, report)
		}()
		time.Sleep(period / 2) // between two looks from now on
		expect := func(what string, rate int, want ...string) {
			t.Helper()
			synctest.Wait()
			if l, err := c.Limit("a"); err != nil || l.Rate != rate {
				t.Errorf("%s: Limit = %v, %v, want a rate of %d", what, l, err, rate)
			}
			mu.Lock()
			defer mu.Unlock()
			for i, r := range reports {
				if i >= len(want) || want[i] == "" && r != nil || want[i] != "" && (r == nil || !strings.Contains(r.Error(), want[i])) {
					t.Errorf("%s: reported %v, want %q", what, reports, want)
				}
			}
			if len(reports) != len(want) {
				t.Errorf("%s: reported %v, want %q", what, reports, want)
			}
			reports = nil
		}
		time.Sleep(3 * period)
		expect("nothing", 1)

		put("limits: {a: 2/1m}\n")
		time.Sleep(period)
		expect("a change that was just made", 1)
		time.Sleep(period)
		expect("a change", 2, "")
		time.Sleep(3 * period)
		expect("no other", 2)

		put("limits: {a: 8/1m}\n")
		if err := c.Reload(ctx); err != nil {
			t.Error(err)
		}
		expect("a Reload by somebody else", 8)
		put("limits: {a: 2/1m}\n")
		time.Sleep(2 * period)
		expect("the file that Watch took last", 2, "")

		for rate := range 3 { // it is being written all the time
			put("limits: {a: " + string(rune('3'+rate)) + "/1m}\n")
			time.Sleep(period)
		}
		expect("a file that does not rest", 2)
		time.Sleep(period)
		expect("one that does", 5, "")

		put("limits: {a: 6}\n")
		time.Sleep(4 * period)
		expect("a mistake", 5, "coord.yaml:2: limits.a")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * period)
		expect("no file", 5, "no such file")
		put("limits: {a: 5/1m}\n")
		time.Sleep(4 * period)
		expect("the file again", 5, "")

		other := filepath.Join(dir, "other.yaml")
		write(t, other, "url: memory://watch\nlimits: {a: 7/1m}\n")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(other, path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * period)
		expect("a link to another file", 7, "")

		cancel()
		<-ended
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Leases begin, change and end with a reload. How they do is seen at the store: what is
// taken in advance is gone before it is spent.
func TestReloadLeases(t *testing.T) {
	lookup := func(string) (string, bool) { return "", false }
	registerCounted()
	path := file(t, "")
	take := func(lease string) (calls int64) {
		t.Helper()
		write(t, path, "url: counting://\nlimits: {a: {rate: 1000000000, per: 1h, lease: "+lease+"}}\n")
		c, err := config.LoadEnv(t.Context(), path, lookup)
		if err != nil {
			t.Fatal(err)
		}
		client, err := c.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		// Under the other setting first, so that the reload has something to change.
		other := map[string]string{"true": "false", "false": "true"}[lease]
		for _, now := range []string{other, lease} {
			write(t, path, "url: counting://\nlimits: {a: {rate: 1000000000, per: 1h, lease: "+now+"}}\n")
			if err := client.Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return spared(t, client, lease == "true")
	}
	if n := take("true"); n <= 0 {
		t.Errorf("%d asks were spared the store after a reload to a lease", n)
	}
	if n := take("false"); n != 0 {
		t.Errorf("%d asks were spared the store after a reload to none", n)
	}
}

// A limit that loses one of its two names, which write it in two ways, is leased as before.
func TestReloadLeaseOfTwoNames(t *testing.T) {
	registerCounted()
	const one = "url: counting://\nlimits:\n  a: {rate: 1000000000, per: 1h, lease: true}\n"
	path := file(t, one+"  b: {rate: 1000000000, per: 1h, algorithm: sliding-window, lease: true}\n")
	c, err := config.LoadEnv(t.Context(), path, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	client, err := c.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	write(t, path, one)
	if err := client.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := spared(t, client, true); n <= 0 {
		t.Errorf("%d asks were spared the store", n)
	}
}

// spared is how many of thousands of requests of the limit "a" the store did not see. With leases they go on until it has not
// seen some, a minute at most: permits are taken in advance by a goroutine that a busy machine lets wait.
func spared(t *testing.T, client *config.Client, leased bool) (n int64) {
	t.Helper()
	limit, err := client.Limit("a")
	if err != nil {
		t.Fatal(err)
	}
	before, key := counted.calls.Load(), rand.Text()
	asked := int64(0)
	for end := time.Now().Add(time.Minute); asked < 5000 || leased && n <= 0 && time.Now().Before(end); {
		for range 100 {
			if _, err := client.Allow(t.Context(), key, limit); err != nil {
				t.Fatal(err)
			}
			asked++
		}
		n = asked - (counted.calls.Load() - before)
	}
	return n
}

var (
	counted         = &countingStore{Backend: memory.New()}
	registerCounted = sync.OnceFunc(func() {
		driver.Register("counting", func(context.Context, *url.URL) (driver.Backend, error) { return counted, nil })
	})
)

// countingStore counts calls, and is not of this process.
type countingStore struct {
	driver.Backend
	calls atomic.Int64
}

func (s *countingStore) Info() driver.Info {
	info := s.Backend.Info()
	info.Claims = slices.DeleteFunc(slices.Clone(info.Claims), func(c driver.Claim) bool { return c == driver.ScopeProcess })
	return info
}

func (s *countingStore) Close() error { return nil }

func (f *countingStore) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	return driver.One(f.Take(ctx, key, l, []driver.Ask{a}))
}

func (s *countingStore) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	s.calls.Add(int64(len(asks)))
	return s.Backend.Take(ctx, key, l, asks)
}

func (s *countingStore) Reset(ctx context.Context, key string, l driver.Limit) error {
	return s.Backend.Reset(ctx, key, l)
}
