//go:build linux

package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// target is a store that is attacked.
type target struct {
	urls   []string
	faults []fault
	// rare is what is not to come again within a minute, as a quorum's member grants nothing for so long then.
	rare []fault
	// forgets is the one in which the store loses all.
	forgets string
	// passes is how long a dead first may keep others from a shared key, as the contract says, and from a lock, unless
	// passesLock says so, as the table of stores does.
	passes, passesLock time.Duration
	left               func() (counts, counts) // and the most that may be
}

const (
	attackers = 5
	slack     = 3 * time.Second // for a busy machine
)

// spell is how long each storm and each calm lasts: briefly where -for does not say how long all is to last.
func spell() time.Duration {
	if *lasts == 0 {
		return 5 * time.Second
	}
	return 15 * time.Second
}

// attacked is one run.
type attacked struct {
	*testing.T
	target
	*journal
	dice    *rand.Rand
	orders  orders
	all     []*prey
	clients [2]*coord.Client
	claims  driver.Claims
	rared   time.Time
	passed  map[string][]time.Duration // waits behind a dead first, by kind
}

// prey is an attacker, seen from its nemesis.
type prey struct {
	n     int
	cmd   *exec.Cmd
	input io.Closer
}

func (a *attacked) spawn(o orders) (*prey, io.Reader) {
	a.orders.Process++
	o.Process, o.Seed = a.orders.Process, a.dice.Uint64()
	text, err := json.Marshal(o)
	if err != nil {
		a.Fatal(err)
	}
	p := &prey{n: o.Process, cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), attackerEnv+"="+string(text))
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := p.cmd.StdinPipe()
	out, err2 := p.cmd.StdoutPipe()
	if err := errors.Join(err, err2, p.cmd.Start()); err != nil {
		a.Fatal(err)
	}
	p.input = in
	return p, out
}

// replace puts another attacker in place of one.
func (a *attacked) replace(i int) {
	o := a.orders
	o.Puts = i%2 == 0 // some of each kind, or all may wait for one another
	a.all[i], _ = a.spawn(o)
}

func (a *attacked) kill(p *prey) {
	_ = p.cmd.Process.Kill() // it may have ended, which Wait tells
	if err := p.cmd.Wait(); err == nil || p.cmd.ProcessState.Exited() {
		a.Errorf("attacker %d ended before it was killed: %v", p.n, err)
	}
	a.add(line{Event: killed, Process: p.n})
}

// leave has an attacker end by itself.
func (a *attacked) leave(p *prey) {
	_ = p.input.Close()
	watchdog := time.AfterFunc(2*time.Minute, func() { _ = p.cmd.Process.Signal(syscall.SIGQUIT) })
	defer watchdog.Stop()
	if err := p.cmd.Wait(); err != nil {
		a.Errorf("attacker %d, which was to leave: %v", p.n, err)
	}
	a.add(line{Event: killed, Process: p.n})
}

// first waits until the store grants: a new quorum takes a minute.
func (a *attacked) first() {
	ctx, cancel := context.WithTimeout(a.Context(), 2*stuck)
	defer cancel()
	l, err := a.clients[0].Lock(ctx, "a")
	if err == nil {
		err = l.Unlock(ctx)
	}
	if err != nil {
		a.Fatalf("the first lock: %v", err)
	}
}

// storms breaks processes and the store at the same time.
func (a *attacked) storms() {
	for began := time.Now(); time.Since(began) < spell(); {
		i := a.dice.IntN(len(a.all))
		p, act, long := a.all[i], a.dice.IntN(5), time.Duration(a.dice.Int64N(int64(5*leaseTTL/2)))
		done := make(chan struct{})
		go func() {
			defer close(done)
			if act < 3 { // frozen, and some of these are killed so
				_ = p.cmd.Process.Signal(syscall.SIGSTOP)
				time.Sleep(long)
			}
			if act > 0 && act < 3 {
				_ = p.cmd.Process.Signal(syscall.SIGCONT)
			}
		}()
		if a.dice.IntN(2) == 0 {
			a.breakStore()
		}
		<-done
		if act == 0 || act == 3 {
			a.kill(p)
		} else if act == 4 {
			a.leave(p)
		} else {
			continue
		}
		a.replace(i)
	}
}

func (a *attacked) breakStore() {
	faults := a.faults
	if len(a.rare) > 0 && time.Since(a.rared) > 70*time.Second {
		faults, a.rared = a.rare, time.Now()
	}
	if len(faults) == 0 {
		return
	}
	f := faults[a.dice.IntN(len(faults))]
	from := now()
	a.Logf("%v: %s", time.Duration(from), f.name)
	f.happen()
	if f.name == a.forgets {
		a.add(line{Event: forgets, Call: from})
	}
}

// deadFirst has a process that is the first in a queue die, and measures how long another stands behind it.
func (a *attacked) deadFirst(kind string) {
	ctx, cancel := context.WithTimeout(a.Context(), stuck)
	defer cancel()
	lockers := [2]coord.Locker{a.clients[0], a.clients[1]}
	if kind == "rw" {
		lockers = [2]coord.Locker{a.clients[0].ReadWrite().Write(), a.clients[1].ReadWrite().Write()}
	}
	o := a.orders
	o.Queue = kind
	opts := []coord.LockOption{coord.TTL(firstTTL)}
	if kind == "lock" && a.claims.Has(driver.Fair) {
		opts = append(opts, coord.Fair())
	}
	held, err := lockers[0].Lock(ctx, "dead first", opts...)
	for errors.Is(err, coord.ErrUnavailable) && ctx.Err() == nil { // its client connects again
		nap(ctx, 100*time.Millisecond)
		held, err = lockers[0].Lock(ctx, "dead first", opts...)
	}
	if err != nil {
		a.Errorf("dead first: %v", err)
		return
	}
	first, out := a.spawn(o)
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		a.Errorf("the first in a queue: %v", err)
	}
	a.queued(ctx, kind, 1)
	type taken struct {
		l   *coord.Lock
		at  time.Time
		err error
	}
	took := make(chan taken)
	go func() {
		l, err := lockers[1].Lock(ctx, "dead first", opts...)
		took <- taken{l, time.Now(), err}
	}()
	a.queued(ctx, kind, 2)
	a.kill(first)
	time.Sleep(time.Duration(a.dice.Int64N(int64(time.Second / 2))))
	since := time.Now()
	if err := held.Unlock(ctx); err != nil {
		a.Errorf("dead first: %v", err)
	}
	next := <-took
	if next.err != nil {
		a.Errorf("dead first: %v", next.err)
		return
	}
	wait := next.at.Sub(since)
	a.passed[kind] = append(a.passed[kind], wait.Round(time.Millisecond))
	most := a.passes
	if kind == "lock" {
		most = max(most, a.passesLock)
	}
	if wait > most+slack {
		a.Errorf("a %s was free for %v while one waited behind a dead first: want at most %v", kind, wait, most)
	}
	if err := next.l.Unlock(ctx); err != nil {
		a.Errorf("dead first: %v", err)
	}
}

// queued waits until so many are in the queue, or, where the store does not tell, for a moment.
func (a *attacked) queued(ctx context.Context, kind string, n int) {
	for kind == "lock" && a.claims.Has(driver.Fair) {
		h, err := a.clients[0].Inspect(ctx, "dead first")
		if err != nil || h.Waiters >= n {
			if err != nil {
				a.Errorf("Inspect: %v", err)
			}
			return
		}
		nap(ctx, 10*time.Millisecond)
	}
	nap(ctx, 200*time.Millisecond)
}

// end has the attackers end, half of them by a kill, and takes all that they had.
func (a *attacked) end() {
	for i, p := range a.all {
		if i%2 == 0 {
			a.kill(p)
		} else {
			a.leave(p)
		}
	}
	since, c, shares := time.Now(), a.clients[0], a.claims.Has(driver.Shared)
	take := func(l coord.Locker, key string, most time.Duration, opts ...coord.LockOption) {
		ctx, cancel := context.WithTimeout(a.Context(), stuck)
		defer cancel()
		h, err := l.Lock(ctx, key, opts...)
		if err != nil {
			a.Errorf("Lock of %s at the end: %v", key, err)
			return
		}
		if took := time.Since(since); took > most+slack {
			a.Errorf("%s was taken for %v after the last attacker had ended: want at most %v", key, took, most)
		}
		if err := h.Unlock(ctx); err != nil {
			a.Errorf("Unlock of %s at the end: %v", key, err)
		}
	}
	for _, key := range []string{"a", "b", "c", "lead"} {
		take(c, key, leaseTTL)
	}
	if shares {
		take(c.ReadWrite().Write(), "rw", leaseTTL)
		take(c.Semaphore(permits), "permits", leaseTTL, coord.Weight(permits))
	}
	take(c, "buffer", condTTL)
}

// attackOn attacks the store that start gives, and judges what came of it.
func attackOn(t *testing.T, start func() target) {
	t.Helper()
	t.Parallel()
	stores <- struct{}{}
	t.Cleanup(func() { <-stores })
	first := *seed
	if first == 0 {
		first = rand.Uint64()
	}
	t.Logf("-seed %d", first)
	dir, err := os.MkdirTemp("", "attack")
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "log")
	j, err := openJournal(log)
	if err != nil {
		t.Fatal(err)
	}
	defer j.f.Close()
	a := &attacked{T: t, target: start(), journal: j, dice: rand.New(rand.NewPCG(first, 0))}
	a.passed = map[string][]time.Duration{}
	a.orders = orders{URLs: a.urls, Log: log, Buffer: filepath.Join(dir, "buffer")}
	for i := range a.clients {
		if a.clients[i], err = openStore(t.Context(), a.urls); err != nil {
			t.Fatal(err)
		}
		defer a.clients[i].Close()
	}
	a.claims = a.clients[0].Info().Claims
	a.first()
	a.all = make([]*prey, attackers)
	for i := range a.all {
		a.replace(i)
	}
	began, rounds := time.Now(), 0
	for ; rounds == 0 || time.Since(began) < *lasts && !t.Failed(); rounds++ {
		a.storms()
		time.Sleep(condTTL + 2*time.Second) // leases of those that died end
		a.add(line{Event: calm})
		from := time.Now()
		a.deadFirst("lock")
		if a.claims.Has(driver.Shared) {
			a.deadFirst("rw")
		}
		time.Sleep(spell() - time.Since(from))
		a.add(line{Event: broken})
	}
	a.end()
	for _, c := range a.clients {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	a.judge(log)
	t.Logf("%v, %d rounds, %d attackers; behind a dead first: %v",
		time.Since(began).Round(time.Second), rounds, a.orders.Process, a.passed)
	a.leftovers()
	if !t.Failed() {
		_ = os.RemoveAll(dir)
	}
}

func (a *attacked) judge(log string) {
	text, err := os.ReadFile(log)
	if err != nil {
		a.Fatal(err)
	}
	var lines []line
	events := map[string]int{}
	for each := range strings.Lines(string(text)) {
		var l line
		if err := json.Unmarshal([]byte(each), &l); err != nil {
			a.Fatalf("%s: %q: %v", log, each, err)
		}
		events[l.Event]++
		lines = append(lines, l)
	}
	v := judge(lines)
	a.Logf("%d holds, %d of them for certain for a while; %d signals in calms, for %d waits; longest waits %v; lines: %v",
		v.holds, v.definite, v.signals, v.waits, v.longest, events)
	for i, f := range v.faults {
		if i == 20 {
			a.Errorf("and %d more", len(v.faults)-i)
			break
		}
		a.Error(f)
	}
	if len(v.faults) > 0 {
		a.Errorf("the lines are in %s", log)
	}
	if v.definite == 0 || a.claims.Has(driver.Shared) && v.waits == 0 {
		a.Error("the attack shows nothing")
	}
}

// leftovers are what the store still has when all leases are over.
func (a *attacked) leftovers() {
	if a.left == nil {
		return
	}
	got, most := a.left()
	for start := time.Now(); !got.within(most) && time.Since(start) < 2*time.Minute; got, _ = a.left() {
		nap(a.Context(), time.Second)
	}
	a.Logf("left: %v", got)
	if !got.within(most) {
		a.Errorf("left: %v, want at most %v", got, most)
	}
}

const (
	keysOfLocks  = 6 // a, b, c, lead, buffer, dead first
	keysOfShares = 4 // rw, permits, dead first, those who wait for buffer
)

func TestChaosAttackRedis(t *testing.T) {
	attackOn(t, func() target {
		s := testserver.Redis(t, testserver.Durable())
		addr, faults := singleFaults(t, s)
		left := redisLeft(t, s.Addr)
		return target{
			urls: []string{"redis://" + addr}, faults: faults, passes: time.Second,
			left: func() (counts, counts) {
				return left(), counts{"fences": keysOfLocks + keysOfShares, "shared keys": keysOfShares}
			},
		}
	})
}

func TestChaosAttackEtcd(t *testing.T) {
	attackOn(t, func() target {
		s := testserver.Etcd(t, testserver.Durable())
		addr, faults := singleFaults(t, s)
		left := etcdLeft(t, s.Addr)
		return target{
			urls: []string{"etcd://" + addr}, faults: faults, passes: time.Second, passesLock: firstTTL,
			left: func() (counts, counts) { return left(), counts{} },
		}
	})
}

func TestChaosAttackZooKeeper(t *testing.T) {
	attackOn(t, func() target {
		s := testserver.ZooKeeper(t, testserver.Durable())
		addr, faults := singleFaults(t, s)
		left := zookeeperLeft(t, s.Addr, "/attack")
		return target{
			urls: []string{"zookeeper://" + addr + "/attack?session_timeout=2s"}, faults: faults, passes: 2 * time.Second,
			left: func() (counts, counts) { return left(), counts{} },
		}
	})
}

func TestChaosAttackMemcached(t *testing.T) {
	attackOn(t, func() target {
		s := testserver.Memcached(t, testserver.WithFlags("-M"))
		addr, faults := singleFaults(t, s)
		left := memcachedLeft(t, s)
		return target{
			urls: []string{"memcached://" + addr}, faults: faults, forgets: "server killed", passes: 2 * time.Second,
			left: func() (counts, counts) {
				return left(), counts{"fences": keysOfLocks + keysOfShares, "shared keys": keysOfShares, "lists of servers": 1}
			},
		}
	})
}

func TestChaosAttackPostgres(t *testing.T) {
	attackOn(t, func() target {
		s := testserver.Postgres(t)
		addr, faults := singleFaults(t, s)
		return postgresTarget(t, s, addr, faults, 0)
	})
}

func TestChaosAttackPgBouncer(t *testing.T) {
	attackOn(t, func() target {
		s := testserver.Postgres(t)
		addr, faults := singleFaults(t, testserver.PgBouncer(t, s))
		faults = append(faults,
			fault{"server behind it killed", s.Kill, s.Restart, time.Second},
			fault{"server behind it paused", s.Pause, s.Resume, 2 * time.Second})
		return postgresTarget(t, s, addr, faults, 20)
	})
}

func postgresTarget(t *testing.T, s *testserver.Server, addr string, faults []fault, sessions int) target {
	return target{
		urls: []string{testserver.PostgresURL(testserver.PostgresUser, addr)}, faults: faults, passes: 2 * time.Second,
		left: func() (counts, counts) {
			return postgresLeft(t, s.Addr), counts{"sessions": sessions}
		},
	}
}

func TestChaosAttackFile(t *testing.T) {
	attackOn(t, func() target {
		dir := t.TempDir()
		left := fileLeft(t, dir)
		return target{
			urls: []string{"file://" + dir}, passes: 2 * time.Second,
			left: func() (counts, counts) {
				return left(), counts{"locks": keysOfLocks + keysOfShares, "shareds": keysOfShares}
			},
		}
	})
}

// Most of three servers serve at any time; what was empty counts again after a minute.
func TestChaosAttackQuorum(t *testing.T) {
	attackOn(t, func() target {
		var all target
		all.passes = 2 * time.Second
		for i := range 3 {
			s := testserver.Redis(t, testserver.Durable())
			addr, faults := singleFaults(t, s)
			var end func()
			for _, f := range faults[1:] {
				all.faults = append(all.faults, fault{fmt.Sprintf("member %d: %s", i, f.name), f.begins, f.ends, f.lasts})
			}
			all.faults = append(all.faults, fault{
				fmt.Sprintf("member %d slow", i),
				func() { end = s.Slow(300*time.Millisecond, 20*time.Millisecond) }, func() { end() }, 3 * time.Second,
			})
			all.rare = append(all.rare,
				fault{fmt.Sprintf("member %d killed", i), s.Kill, s.Restart, time.Second},
				fault{fmt.Sprintf("member %d empty", i), s.Wipe, nil, 0})
			all.urls = append(all.urls, "redis://"+addr)
		}
		return all
	})
}
