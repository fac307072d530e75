// Command tour shows what coord does, step by step, on the store that --url names. What
// it prints is the same on every store: that is the point of it.
//
//	go run ./tour --url etcd://localhost:2379
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/all"
)

func main() {
	url := flag.String("url", "memory://tour", "the store")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := run(ctx, *url, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// tour has two clients of one store, as two processes would have.
type tour struct {
	a, b *coord.Client
	// ns keeps the keys of one run apart from those of another.
	ns string
}

func run(ctx context.Context, url string, out io.Writer) (err error) {
	t := tour{ns: fmt.Sprintf("tour-%d-%d", os.Getpid(), time.Now().UnixNano())}
	for _, c := range []**coord.Client{&t.a, &t.b} {
		if *c, err = coord.Open(ctx, url, coord.WithLockDefaults(coord.TTL(2*time.Second))); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, (*c).Close()) }()
	}
	for _, step := range []struct {
		title string
		show  func(context.Context) (string, error)
	}{
		{"one holder at a time", t.exclusion},
		{"tokens rise", t.tokens},
		{"no waiting", t.tryLock},
		{"a bounded wait", t.wait},
		{"an owner enters again", t.reentry},
		{"work longer than its lease", t.renewal},
		{"a stale holder is fenced off", t.fencing},
		{"a limit, shared", t.limit},
		{"a limit, asked for too much", t.tooMuch},
	} {
		said, err := step.show(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", step.title, err)
		}
		if _, err := fmt.Fprintf(out, "%-28s  %s\n", step.title, said); err != nil {
			return err
		}
	}
	return nil
}

func (t *tour) key(name string) string { return coord.Key(t.ns, name) }

// exclusion: goroutines of two clients count: each reads the count, and writes one more.
// Two at once would lose one.
func (t *tour) exclusion(ctx context.Context) (string, error) {
	const workers, rounds = 4, 5
	var count atomic.Int32
	var wg sync.WaitGroup
	errs := make(chan error, 2*workers)
	for _, c := range []*coord.Client{t.a, t.b} {
		for range workers {
			wg.Go(func() {
				for range rounds {
					if err := coord.Do(ctx, c, t.key("counter"), func(context.Context) error {
						n := count.Load()
						count.Store(n + 1)
						return nil
					}); err != nil {
						errs <- err
						return
					}
				}
			})
		}
	}
	wg.Wait()
	close(errs)
	return fmt.Sprintf("%d goroutines of 2 clients counted to %d", 2*workers, count.Load()), <-errs
}

func (t *tour) tokens(ctx context.Context) (string, error) {
	var last coord.Token
	rose := 0
	for i := range 10 {
		c := []*coord.Client{t.a, t.b}[i%2]
		l, err := c.Lock(ctx, t.key("tokens"))
		if err != nil {
			return "", err
		}
		if l.Token() > last {
			rose++
		}
		last = l.Token()
		if err := l.Unlock(ctx); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d holders, %d times a greater token", 10, rose), nil
}

func (t *tour) tryLock(ctx context.Context) (string, error) {
	l, err := t.a.Lock(ctx, t.key("try"))
	if err != nil {
		return "", err
	}
	_, held := t.b.TryLock(ctx, t.key("try"))
	if err := l.Unlock(ctx); err != nil {
		return "", err
	}
	l, err = t.b.TryLock(ctx, t.key("try"))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("while it is held: ErrLocked is %v; after Unlock: granted", errors.Is(held, coord.ErrLocked)), l.Unlock(ctx)
}

func (t *tour) wait(ctx context.Context) (string, error) {
	l, err := t.a.Lock(ctx, t.key("wait"))
	if err != nil {
		return "", err
	}
	_, late := t.b.Lock(ctx, t.key("wait"), coord.WaitAtMost(100*time.Millisecond))
	return fmt.Sprintf("after 100ms: ErrLocked is %v, DeadlineExceeded is %v",
		errors.Is(late, coord.ErrLocked), errors.Is(late, context.DeadlineExceeded)), l.Unlock(ctx)
}

func (t *tour) reentry(ctx context.Context) (string, error) {
	depth, same := 0, true
	var first coord.Token
	var enter func(ctx context.Context) error
	enter = func(ctx context.Context) error {
		l, ok := coord.Held(ctx, t.key("reentry"))
		if !ok {
			return errors.New("not held")
		}
		if depth++; depth == 1 {
			first = l.Token()
		}
		same = same && l.Token() == first
		if depth == 3 {
			return nil
		}
		return coord.Do(ctx, t.a, t.key("reentry"), enter)
	}
	err := coord.Do(ctx, t.a, t.key("reentry"), enter)
	return fmt.Sprintf("%d deep, one token: %v", depth, same), err
}

// renewal: the lock is renewed for as long as the work takes.
func (t *tour) renewal(ctx context.Context) (string, error) {
	var tried error
	err := coord.Do(ctx, t.a, t.key("renewal"), func(ctx context.Context) error {
		l, _ := coord.Held(ctx, t.key("renewal"))
		select {
		case <-time.After(l.TTL() * 3 / 2):
		case <-ctx.Done():
		}
		_, tried = t.b.TryLock(ctx, t.key("renewal"))
		return ctx.Err()
	})
	return fmt.Sprintf("after one and a half TTLs it is still held: %v", errors.Is(tried, coord.ErrLocked)), err
}

// fencing: a holder that does not renew and does not look outlives its lease. Its token
// gives it away.
func (t *tour) fencing(ctx context.Context) (string, error) {
	stale, err := t.a.Lock(ctx, t.key("fencing"), coord.NoRenew())
	if err != nil {
		return "", err
	}
	fresh, err := t.b.Lock(ctx, t.key("fencing"))
	if err != nil {
		return "", err
	}
	var guard coord.Guard
	accepted := guard.Check(t.key("fencing"), fresh.Token())
	refused := guard.Check(t.key("fencing"), stale.Token())
	return fmt.Sprintf("the next holder's write is accepted: %v; its own is refused: %v; its Unlock is ErrLost: %v", accepted == nil,
		errors.Is(refused, coord.ErrLost), errors.Is(stale.Unlock(ctx), coord.ErrLost)), fresh.Unlock(ctx)
}

// limit: both clients ask for more than there is.
func (t *tour) limit(ctx context.Context) (string, error) {
	limit := coord.Per(20, time.Hour)
	var allowed, denied atomic.Int32
	var wg sync.WaitGroup
	errs := make(chan error, 2)
	for _, c := range []*coord.Client{t.a, t.b} {
		wg.Go(func() {
			for range 25 {
				r, err := c.Allow(ctx, t.key("limit"), limit)
				switch {
				case err != nil:
					errs <- err
					return
				case r.Allowed:
					allowed.Add(1)
				default:
					denied.Add(1)
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return fmt.Sprintf("%v: %d allowed, %d denied", limit, allowed.Load(), denied.Load()), <-errs
}

func (t *tour) tooMuch(ctx context.Context) (string, error) {
	limit := coord.Limit{Rate: 10, Per: time.Minute, Burst: 5}
	_, err := t.a.AllowN(ctx, t.key("bucket"), limit, 6)
	if !errors.Is(err, coord.ErrExceedsBurst) {
		return "", err
	}
	r, err := t.a.AllowN(ctx, t.key("bucket"), limit, 5)
	return fmt.Sprintf("6 of a burst of 5: ErrExceedsBurst; 5: allowed is %v, %d left", r.Allowed, r.Remaining), err
}
