//go:build linux

package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/quorum"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/observe"
)

// An attacker is this binary, started again: a process whose goroutines use the public API at random until its input ends.
// It writes what it sees to one file, which all append to.

const attackerEnv = "COORD_FAULTS_ATTACKER"

func init() {
	attackerMain = func() {
		text, ok := os.LookupEnv(attackerEnv)
		if !ok {
			return
		}
		var o orders
		err := json.Unmarshal([]byte(text), &o)
		if err == nil {
			err = attack(o)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "attacker:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// orders are what an attacker is told.
type orders struct {
	URLs    []string // several are a quorum
	Log     string
	Buffer  string // a file that the lock of key buffer guards
	Process int
	Seed    uint64
	Puts    bool   // into the buffer, else takes
	Queue   string // wait for this key, "rw" as a writer, and do nothing else
}

const (
	leaseTTL = 2 * time.Second
	// condTTL is longer than the judge gives one that was signalled.
	condTTL = 12 * time.Second
	// firstTTL is that of who dies as the first in a queue: longer than it may keep others waiting.
	firstTTL = 12 * time.Second
	permits  = 3
	// stuck is how long no wait may be, whatever is broken meanwhile.
	stuck = 90 * time.Second
)

// now is the machine's monotonic clock, which is the same in all processes.
func now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// journal is the file of all lines.
type journal struct{ f *os.File }

func openJournal(path string) (*journal, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return &journal{f}, err
}

func (j *journal) add(l line) {
	if l.T == 0 {
		l.T = now()
	}
	text, err := json.Marshal(l)
	if err == nil {
		_, err = j.f.Write(append(text, '\n')) // at once, so that a kill leaves no half line
	}
	if err != nil {
		panic(err)
	}
}

func openStore(ctx context.Context, urls []string, opts ...coord.Option) (*coord.Client, error) {
	for {
		c, err := openOnce(ctx, urls, opts)
		if !errors.Is(err, coord.ErrUnavailable) || ctx.Err() != nil {
			return c, err
		}
		nap(ctx, 100*time.Millisecond)
	}
}

func openOnce(ctx context.Context, urls []string, opts []coord.Option) (*coord.Client, error) {
	if len(urls) == 1 {
		return coord.Open(ctx, urls[0], opts...)
	}
	b, _, err := quorum.Open(ctx, urls...)
	if err != nil {
		return nil, err
	}
	return coord.New(b, opts...)
}

func nap(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

type attacker struct {
	orders
	*journal
	ctx    context.Context // until the input ends
	client atomic.Pointer[coord.Client]
	claims driver.Claims
	holds  atomic.Int64
}

func attack(o orders) error {
	j, err := openJournal(o.Log)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		end()
	}()
	if o.Queue != "" {
		return queue(ctx, o)
	}
	before, sockets := runtime.NumGoroutine(), socketsNow()
	c, err := openStore(ctx, o.URLs)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil
	case err != nil:
		return fmt.Errorf("open: %w", err)
	}
	a := &attacker{orders: o, journal: j, ctx: ctx, claims: c.Info().Claims}
	a.client.Store(c)
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			g := &striker{attacker: a, dice: rand.New(rand.NewPCG(o.Seed, uint64(i)))}
			for ctx.Err() == nil {
				g.strike(i)
				nap(ctx, g.upTo(30*time.Millisecond))
			}
		})
	}
	all.Wait()
	a.close(a.client.Load())
	start := time.Now()
	for runtime.NumGoroutine() >= before || socketsNow() > sockets { // the goroutine of the input has ended
		nap(context.Background(), 50*time.Millisecond)
		if time.Since(start) > 20*time.Second {
			stacks := make([]byte, 1<<16)
			return fmt.Errorf("%d goroutines and %d sockets at the end, %d and %d before:\n%s", runtime.NumGoroutine(), socketsNow(), before, sockets,
				stacks[:runtime.Stack(stacks, true)])
		}
	}
	return nil
}

func socketsNow() (n int) {
	files, _ := os.ReadDir("/proc/self/fd")
	for _, f := range files {
		if to, _ := os.Readlink("/proc/self/fd/" + f.Name()); strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// queue waits for a key, and tells when it does.
func queue(ctx context.Context, o orders) error {
	c, err := openStore(ctx, o.URLs, coord.WithObserver(observe.Observer{WaitBegan: func(context.Context, observe.WaitBegan) { fmt.Println("waits") }}))
	if err != nil {
		return err
	}
	var l coord.Locker = c
	if o.Queue == "rw" {
		l = c.ReadWrite().Write()
	}
	_, err = l.Lock(ctx, "dead first", coord.TTL(firstTTL))
	return err
}

func (a *attacker) close(c *coord.Client) {
	start := now()
	_ = c.Close() // of a store that may be away
	if took := time.Duration(now() - start); took > 30*time.Second {
		a.add(line{Event: wrong, Process: a.Process, Text: fmt.Sprintf("Close took %v", took)})
	}
}

// striker is one goroutine.
type striker struct {
	*attacker
	dice *rand.Rand
}

func (g *striker) upTo(d time.Duration) time.Duration { return time.Duration(g.dice.Int64N(int64(d))) }

func (g *striker) one(in int) bool { return g.dice.IntN(in) == 0 }

// strike does one thing: goroutine 0 with locks, 1 with what is shared, 2 with the condition.
func (g *striker) strike(i int) {
	ctx, cancel := context.WithTimeout(context.Background(), stuck)
	defer cancel()
	if g.one(3) {
		time.AfterFunc(g.upTo(time.Second), cancel)
	}
	c, start := g.client.Load(), now()
	err := g.act(ctx, c, i)
	switch took := time.Duration(now() - start); {
	case err == nil:
		return
	case took >= stuck && errors.Is(err, context.DeadlineExceeded), errors.Is(err, coord.ErrInvalid), errors.Is(err, coord.ErrUnsupported), errors.Is(err, coord.ErrCorrupt):
		g.add(line{Event: wrong, Process: g.Process, Text: fmt.Sprintf("after %v: %v", took, err)})
	case errors.Is(err, coord.ErrUnavailable):
		nap(g.ctx, g.upTo(200*time.Millisecond))
	}
}

func (g *striker) act(ctx context.Context, c *coord.Client, i int) error {
	if g.one(150) { // the others' waits and holds end
		next, err := openStore(ctx, g.URLs)
		if err == nil {
			g.close(g.client.Swap(next))
		}
		return nil
	}
	opts := []coord.LockOption{coord.TTL(leaseTTL)}
	if g.claims.Has(driver.Fair) && g.one(3) {
		opts = append(opts, coord.Fair())
	}
	key := []string{"a", "b", "c"}[g.dice.IntN(3)]
	shares := g.claims.Has(driver.Shared)
	switch d := g.dice.IntN(10); {
	case i == 2 && shares:
		return g.buffer(ctx, c)
	case i == 1 && shares && d < 4:
		return g.locked(ctx, c.ReadWrite().Read(), "rw", modeRead, 0, opts)
	case i == 1 && shares && d < 6:
		return g.locked(ctx, c.ReadWrite().Write(), "rw", modeWrite, 0, opts)
	case i == 1 && shares:
		w := 1 + g.dice.IntN(permits)
		return g.locked(ctx, c.Semaphore(permits), "permits", modePermits, w, append(opts, coord.Weight(w)))
	case d < 2:
		return coord.Lead(ctx, c, "lead", g.under(ctx, "lead"), opts...)
	case d < 4:
		return coord.DoAll(ctx, c, []string{key, "b", "c"}, g.under(ctx, key, "b", "c"), opts...)
	case d < 6:
		return coord.Do(ctx, c, key, g.under(ctx, key), opts...)
	default:
		return g.locked(ctx, c, key, modeLock, 0, opts)
	}
}

// locked takes a hold and gives it back.
func (g *striker) locked(ctx context.Context, l coord.Locker, key, mode string, weight int, opts []coord.LockOption) error {
	take, call := l.Lock, now()
	if g.one(4) {
		take = l.TryLock
	}
	h, err := take(ctx, key, opts...)
	if err != nil {
		return err
	}
	id := g.note(h, call, key, mode, weight)
	g.hold([]string{id}, h)
	at := now()
	if err = h.Unlock(ctx); err == nil {
		g.add(line{Event: certain, T: at, ID: id})
	}
	return err
}

// note notes a hold that was granted.
func (g *striker) note(l *coord.Lock, call int64, key, mode string, weight int) (id string) {
	of := 0
	if mode == modePermits {
		of = permits
	}
	id = fmt.Sprintf("%d.%d", g.Process, g.holds.Add(1))
	g.add(line{Event: granted, Call: call, Process: g.Process, Key: key, ID: id, Mode: mode, Weight: weight, Of: of, Slot: l.Slot(), Token: l.Token()})
	return id
}

// hold goes on for a while, and notes that it is still held.
func (g *striker) hold(ids []string, locks ...*coord.Lock) {
	most := 50 * time.Millisecond
	if g.one(30) {
		most = 2 * leaseTTL // it is renewed
	}
	for range 1 + g.dice.IntN(3) {
		nap(g.ctx, g.upTo(most))
		for i, l := range locks {
			g.certain(ids[i], l)
		}
	}
}

func (g *striker) certain(id string, l *coord.Lock) {
	if at := now(); l.Err() == nil {
		g.add(line{Event: certain, T: at, ID: id})
	}
}

// under is a function for Do, DoAll and Lead, called now.
func (g *striker) under(ctx context.Context, keys ...string) func(context.Context) error {
	call := now()
	slices.Sort(keys)
	keys = slices.Compact(keys)
	return func(ctx context.Context) error {
		var locks []*coord.Lock
		var ids []string
		for _, key := range keys {
			l, ok := coord.Held(ctx, key)
			if !ok {
				g.add(line{Event: wrong, Process: g.Process, Text: "Held gives no lock of " + key})
				return nil
			}
			locks, ids = append(locks, l), append(ids, g.note(l, call, key, modeLock, 0))
		}
		g.hold(ids, locks...)
		call = now() // of the next term
		return ctx.Err()
	}
}

// buffer puts into the bounded buffer, or takes from it, and waits while that cannot be done.
func (g *striker) buffer(ctx context.Context, c *coord.Client) error {
	const key, most = "buffer", 2
	changed, call, puts := c.Cond(key), now(), g.Puts
	return coord.Do(ctx, c, key, func(ctx context.Context) error {
		l, _ := coord.Held(ctx, key)
		id, n := g.note(l, call, key, modeLock, 0), 0
		for {
			var err error
			if n, err = g.access(id, l, 0, 0); err != nil {
				return err
			}
			if puts && n < most || !puts && n > 0 {
				break
			}
			g.certain(id, l)
			call = now()
			g.add(line{Event: waits, Process: g.Process, Key: key, ID: id, Token: l.Token()})
			if err := changed.Wait(ctx); err != nil {
				g.add(line{Event: gone, ID: id, Text: err.Error()})
				return err
			}
			l, _ = coord.Held(ctx, key)
			g.add(line{Event: woken, ID: id, Token: l.Token()})
			id = g.note(l, call, key, modeLock, 0)
		}
		nap(ctx, g.upTo(20*time.Millisecond))
		add := -1
		if puts {
			add = 1
		}
		if _, err := g.access(id, l, n, add); err != nil {
			return err
		}
		event, tell := signalled, changed.Signal
		if g.one(2) { // the one that waits longest may be of the same kind
			event, tell = broadcast, changed.Broadcast
		}
		call := now()
		if err := tell(ctx); err != nil {
			return err
		}
		g.add(line{Event: event, Call: call, Process: g.Process, Key: key, Token: l.Token()})
		g.certain(id, l)
		return nil
	}, coord.TTL(condTTL))
}

var errStale = errors.New("the buffer has seen a greater token")

// access adds to what is in the buffer, which refuses a smaller token than it has seen, and gives how much there is. There were
// so many before, unless others came in.
func (g *striker) access(id string, l *coord.Lock, were, add int) (n int, err error) {
	f, err := os.OpenFile(g.Buffer, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return 0, err
	}
	var text [64]byte
	var seen coord.Token
	if read, _ := f.ReadAt(text[:], 0); read > 0 {
		if _, err := fmt.Sscan(string(text[:read]), &seen, &n); err != nil {
			return 0, err
		}
	}
	if l.Token() < seen || add != 0 && n != were {
		if at := now(); l.Err() == nil {
			g.add(line{Event: refused, T: at, Process: g.Process, Key: l.Key(), ID: id, Token: l.Token()})
		}
		return 0, errStale
	}
	n += add
	_, err = f.WriteAt(fmt.Appendf(nil, "%20d %20d \n", int64(l.Token()), n), 0)
	return n, err
}
