package main_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
)

// How a lease is lost, and what follows, takes its time: here that is fake. The lease is 30 s, and is renewed
// every 10 s.

// embeddedStore is a store in this process that several clients share, and that can be away.
type embeddedStore struct {
	memory *memory.Store
	away   atomic.Bool // calls get no answer
	serves time.Time   // TryLock is not served before, and told so
	closed atomic.Int64
}

// embedded are the stores by the host of their URL, embedded://host.
var embedded sync.Map

func init() {
	driver.Register("embedded", func(_ context.Context, u *url.URL) (driver.Backend, error) {
		s, ok := embedded.Load(u.Host)
		if !ok {
			return nil, fmt.Errorf("%w: no store %s", driver.ErrInvalid, u.Host)
		}
		store := s.(*embeddedStore)
		return &embeddedClient{store.memory.Open(), store}, nil
	})
}

type lockStore = driver.Backend

type embeddedClient struct {
	lockStore
	store *embeddedStore
}

// reach is an error where the store is away, in the time that a client of a network waits.
func (c *embeddedClient) reach(ctx context.Context) error {
	if !c.store.away.Load() {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(5 * time.Second):
		return errors.New("no answer")
	}
}

func (c *embeddedClient) TryLock(ctx context.Context, key string, r driver.Request) (g driver.Grant, err error) {
	if err := c.reach(ctx); err != nil {
		return g, err
	}
	if left := time.Until(c.store.serves); left > 0 {
		return g, &driver.NotYetError{After: left, Err: driver.NotSent(errors.New("it has just started"))}
	}
	return c.lockStore.TryLock(ctx, key, r)
}

func (c *embeddedClient) Renew(ctx context.Context, key string, r driver.Request) (g driver.Grant, err error) {
	if err := c.reach(ctx); err != nil {
		return g, err
	}
	return c.lockStore.Renew(ctx, key, r)
}

func (c *embeddedClient) Unlock(ctx context.Context, key, id string) error {
	if err := c.reach(ctx); err != nil {
		return err
	}
	return c.lockStore.Unlock(ctx, key, id)
}

func (c *embeddedClient) Close() error {
	c.store.closed.Add(1)
	return c.lockStore.Close()
}

// inFakeTime runs the test on a store of its own.
func inFakeTime(t *testing.T, test func(t *testing.T, u *user, s *embeddedStore)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &embeddedStore{memory: memory.NewStore()}
		host := "s" + strconv.FormatInt(prefixes.Add(1), 10)
		embedded.Store(host, s)
		defer embedded.Delete(host)
		test(t, newUser(t, "embedded://"+host), s)
		s.away.Store(false)
		time.Sleep(time.Hour) // what a client without Close has begun ends by itself
	})
}

// awaitLoss waits until the command has ended because of its lock.
func (h held) awaitLoss(t *testing.T) {
	t.Helper()
	select {
	case <-h.lost:
	case <-time.After(patience):
		t.Fatal("it does not learn that its lock is lost")
	}
}

// A person at a terminal sees after two seconds who holds the lock, once; nobody else does without --verbose.
func TestWaitAtATerminal(t *testing.T) {
	for _, args := range []string{"lock a", "lock a --write", "lock a -n 1"} {
		t.Run(args, func(t *testing.T) {
			inFakeTime(t, func(t *testing.T, u *user, _ *embeddedStore) {
				holder, _ := u.hold(strings.Fields(args)...)
				wait := append(strings.Fields(args), "--", "true")
				silent := u.begin(wait...)
				u.terminal = true
				began := time.Now()
				told := u.begin(wait...)
				told.says("coord: waiting: ")
				if took := time.Since(began); took < 2*time.Second || took > 2*time.Second+100*time.Millisecond {
					t.Errorf("told after %v", took)
				}
				time.Sleep(time.Minute)
				if said := told.stderr.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, host(t)) || silent.stderr.String() != "" {
					t.Errorf("at a terminal: %q, elsewhere %q", said, silent.stderr)
				}
				holder.release()
				for range 2 {
					select {
					case <-silent.up:
						silent.release()
					case <-told.up:
						told.finish <- 0
						told.end()
					}
				}
			})
		})
	}
}

// A store that says when it will serve is waited for, unless the wait is over before.
func TestLockWaitsForTheStore(t *testing.T) {
	for flags, served := range map[string]bool{
		"": true, "--verbose": true, "--wait 90s": true, "--wait 90s --verbose": true,
		"--wait 30s": false, "--wait 30s --verbose": false, "--no-wait": false,
	} {
		t.Run(flags, func(t *testing.T) {
			inFakeTime(t, func(t *testing.T, u *user, s *embeddedStore) {
				began := time.Now()
				s.serves = began.Add(time.Minute)
				r := u.run(slices.Concat([]string{"lock", "a"}, strings.Fields(flags), []string{"--", "true"})...)
				took := time.Since(began)
				if served {
					r.want(t, 0, "", "")
				} else {
					r.want(t, 69, "", "store unavailable: it has just started (retry after 1m0s)")
				}
				if served != (took >= time.Minute) || took > time.Minute+time.Second {
					t.Errorf("it ended after %v", took)
				}
			})
		})
	}
}

// Who waits gives up when the time is over.
func TestLockWaitsInVain(t *testing.T) {
	inFakeTime(t, func(t *testing.T, u *user, _ *embeddedStore) {
		s, _ := u.hold("lock", "a")
		config := u.write("coord.yaml", "lock: {wait: 10s}\n")
		for _, flags := range [][]string{{"lock", "a", "--wait", "10s"}, {"--config", config, "lock", "a"}} {
			began := time.Now()
			u.run(append(flags, "--", "true")...).want(t, 75, "", "the wait is over")
			if took := time.Since(began); took != 10*time.Second {
				t.Errorf("%q: it waited %v", flags, took)
			}
		}
		s.release()
	})
}

// A lock that is broken while the command runs ends it at its next renewal, and coord with 74.
func TestLockBroken(t *testing.T) {
	for name, args := range map[string][]string{"break": {"break", "a"}, "now": {"break", "a", "--now"}} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(t *testing.T, u *user, _ *embeddedStore) {
				s, h := u.hold("lock", "a")
				began := time.Now()
				u.run(args...).want(t, 0, fmt.Sprintf(`took the lock "a" from %s (pid %d)`, host(t), os.Getpid()), "")
				h.awaitLoss(t)
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("it learned of it after %v", took)
				}
				s.end().want(t, 74, "", `coord: the lock "a" was lost while the command ran`)
				time.Sleep(30 * time.Second) // a broken lock is taken until its lease ends
				u.run("status", "a").want(t, 3, "free", "")
				u.run("break", "a").want(t, 3, "", `coord: nobody holds "a"`)
			})
		})
	}
}

// Where the store is away coord ends when the lease does, and does not wait for the store to close it.
func TestLockLostDoesNotClose(t *testing.T) {
	inFakeTime(t, func(t *testing.T, u *user, store *embeddedStore) {
		s, h := u.hold("lock", "a")
		began := time.Now()
		store.away.Store(true)
		h.awaitLoss(t)
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("it learned of it after %v", took)
		}
		s.end().want(t, 74, "", "was lost")
		if n := store.closed.Load(); n != 0 {
			t.Errorf("%d clients were closed, want the process to end without", n)
		}
	})
}

// losses is how many terms coord has told as lost.
func (s *session) losses() int {
	return strings.Count(s.stderr.String(), `coord: this machine does not lead "a" any more`)
}

// A term that is lost ends the command, and the next one starts it again, with a greater token.
func TestLeadAgain(t *testing.T) {
	inFakeTime(t, func(t *testing.T, u *user, _ *embeddedStore) {
		s, h := u.hold("lead", "a")
		for losses := 1; losses <= 2; losses++ {
			u.run("break", "a").want(t, 0, "took the lock", "")
			h.awaitLoss(t)
			next := s.running()
			if number(t, next.env["COORD_TOKEN"]) <= number(t, h.env["COORD_TOKEN"]) || s.losses() != losses {
				t.Errorf("term %s after %s; stderr: %s", next.env["COORD_TOKEN"], h.env["COORD_TOKEN"], s.stderr)
			}
			h = next
		}
		s.finish <- 5
		if r := s.end(); r.code != 5 {
			t.Errorf("exit status %d, want the command's: %s", r.code, r.stderr)
		}
		u.run("status", "a").want(t, 3, "free", "")
	})
}

// A command that was ended because the lease was about to end is started again, also if the lease was renewed after all.
func TestLeadRenewedAfterAll(t *testing.T) {
	inFakeTime(t, func(t *testing.T, u *user, _ *embeddedStore) {
		s, _ := u.hold("lead", "a")
		s.finish <- toldLost
		s.running()
		s.release()
	})
}

// A signal while coord waits ends it, also after a term that was lost.
func TestLeadInterruptedWait(t *testing.T) {
	inFakeTime(t, func(t *testing.T, u *user, _ *embeddedStore) {
		s, h := u.hold("lead", "a")
		rival := u.begin("lock", "a", "--", "true")
		u.run("break", "a", "--now").want(t, 0, "took the lock", "")
		rival.running()
		h.awaitLoss(t)
		synctest.Wait()
		s.signal(syscall.SIGTERM)
		if r := s.end(); r.code != 143 {
			t.Errorf("exit status %d, want 143; stderr: %s", r.code, r.stderr)
		}
		rival.release()
		u.run("status", "a").want(t, 3, "free", "")
	})
}

// While the store is away coord waits, and it leads again when the store is back.
func TestLeadStoreAway(t *testing.T) {
	inFakeTime(t, func(t *testing.T, u *user, store *embeddedStore) {
		s, h := u.hold("lead", "a")
		store.away.Store(true)
		h.awaitLoss(t)
		time.Sleep(time.Hour)
		store.away.Store(false)
		s.running()
		s.release()
	})
}

// While the store is away a signal ends the wait, the one after a term too.
func TestLeadInterruptedOutage(t *testing.T) {
	inFakeTime(t, func(t *testing.T, u *user, store *embeddedStore) {
		s, h := u.hold("lead", "a")
		store.away.Store(true)
		h.awaitLoss(t)
		time.Sleep(time.Minute)
		s.signal(syscall.SIGINT)
		if r := s.end(); r.code != 130 {
			t.Errorf("exit status %d, want 130; stderr: %s", r.code, r.stderr)
		}
	})
}
