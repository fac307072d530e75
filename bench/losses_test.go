package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordgo/coord/internal/testserver"
)

// losses are the rows of the table, by the name of the library.
type losses struct {
	mu   sync.Mutex
	rows []string
	by   map[string]map[string]string
}

func (l *losses) put(row, library, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by[row] == nil {
		l.by[row] = map[string]string{}
		l.rows = append(l.rows, row)
	}
	l.by[row][library] = fmt.Sprintf(format, args...)
}

func (l *losses) String() string {
	var b strings.Builder
	line := func(row string, cell func(majorityLibrary) string) {
		fmt.Fprintf(&b, "| %s", row)
		for _, lib := range majorityLibraries {
			fmt.Fprintf(&b, " | %s", cell(lib))
		}
		b.WriteString(" |\n")
	}
	line("", func(lib majorityLibrary) string { return lib.name })
	line("---", func(majorityLibrary) string { return "---" })
	for _, row := range l.rows {
		line(row, func(lib majorityLibrary) string { return l.by[row][lib.name] })
	}
	return b.String()
}

const killsVariable = "COORD_QUORUM_KILLS"

// TestQuorumLosses runs one program on coord's quorum and on redsync, each on three servers of its own that keep
// nothing, and prints what each loses as a table. coord must lose nothing of what it promises. With COORD_QUORUM_KILLS it
// runs the whole program, two minutes or more: that says how often servers are killed under clients that want one key in
// turn. Otherwise it runs the row that two holders come of, as each change is tested with.
func TestQuorumLosses(t *testing.T) {
	table := &losses{by: map[string]map[string]string{}}
	t.Run("on", func(t *testing.T) {
		for _, lib := range majorityLibraries {
			t.Run(lib.name, func(t *testing.T) {
				t.Parallel() // it mostly waits
				x := &lossTrial{lib: lib, table: table}
				for range 3 {
					s := testserver.Redis(t)
					x.servers, x.addrs = append(x.servers, s), append(x.addrs, s.Addr)
				}
				t.Run("bare", x.bare)
				if os.Getenv(killsVariable) == "" {
					return
				}
				t.Run("turns", x.turns)
				t.Run("rolling", x.rolling)
				t.Run("paused", x.paused)
				t.Run("hung", x.hung)
				t.Run("replies", x.replies)
			})
		}
	})
	t.Logf("what is lost:\n\n%s", table)
}

// lossTrial is the program on one library.
type lossTrial struct {
	lib     majorityLibrary
	table   *losses
	servers []*testserver.Server
	addrs   []string
	emptied time.Time // when a server was restarted last
}

// restart kills a server, which comes back empty.
func (x *lossTrial) restart(s *testserver.Server, away time.Duration) {
	s.Kill()
	time.Sleep(away)
	s.Restart()
	x.emptied = time.Now()
}

func (x *lossTrial) put(row, format string, args ...any) {
	x.table.put(row, x.lib.name, format, args...)
}

// isCoord: what it promises is asserted.
func (x *lossTrial) isCoord() bool { return x.lib.name == majorityLibraries[0].name }

// begin opens a client once all servers have run for the longest lease, so that they have a vote.
func (x *lossTrial) begin(t *testing.T, addrs []string, longest time.Duration) majority {
	t.Helper()
	time.Sleep(time.Until(x.emptied.Add(longest + 2*time.Second))) // they tell their age in whole seconds
	c := x.lib.mustOpen(t, addrs, longest)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		h, err := c.try(ctx, "begin", longest)
		if err == nil {
			_ = h.unlock(ctx) // what it could not do lapses
			return c
		}
		if !sleepUntil(ctx, 100*time.Millisecond) {
			t.Fatalf("no lock: %v", err)
		}
	}
}

// turns: four clients hold one key in turn, for up to thrice its lease, while servers are killed and come back empty,
// one at a time, and at most one for each longest lease.
func (x *lossTrial) turns(t *testing.T) {
	const longest = time.Second
	kills, err := strconv.Atoi(os.Getenv(killsVariable))
	if err != nil {
		t.Fatal(err)
	}
	w := lossWitness{}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 4 {
		c := x.begin(t, x.addrs, longest)
		wg.Go(func() { w.work(ctx, c, longest) })
	}
	for range kills {
		s := x.servers[rand.IntN(len(x.servers))]
		time.Sleep(longest + rand.N(longest)) // until the next failure
		x.restart(s, rand.N(longest/5))
	}
	stop()
	wg.Wait()
	x.put(fmt.Sprintf("%d restarts, 4 clients take turns at one key: a second holder beside the first", kills), "%d of %d holds", w.overlaps, w.holds)
	tokens := "no tokens"
	if w.tokens > 0 {
		tokens = fmt.Sprint(w.falling)
	}
	x.put("the same: tokens that do not rise", "%s", tokens)
	x.put("the same: holds that end early", "%d of %d holds", w.lost, w.holds)
	if x.isCoord() && (w.overlaps > 0 || w.falling > 0 || w.tokens != w.holds || w.holds < kills) {
		t.Errorf("%+v over %d restarts: want more holds, none at once, and tokens that rise", &w, kills)
	}
}

// lossWitness sees every hold of one key.
type lossWitness struct {
	mu                                     sync.Mutex
	holder                                 majorityHold // nil: it was given back
	last                                   int64
	holds, overlaps, tokens, falling, lost int
}

func (w *lossWitness) work(ctx context.Context, c majority, longest time.Duration) {
	for ctx.Err() == nil {
		ttl := longest/4 + rand.N(longest/2)
		h, err := c.lock(ctx, "k", ttl)
		if err != nil {
			sleepUntil(ctx, rand.N(50*time.Millisecond)) // backoff
			continue
		}
		w.begin(h)
		work := time.NewTimer(rand.N(3 * ttl))
		select {
		case <-work.C:
		case <-h.done():
		}
		work.Stop()
		w.end(h)
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		_ = h.unlock(bound) // what it could not do lapses
		cancel()
	}
}

func (w *lossWitness) begin(h majorityHold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.holder != nil && w.holder.valid() {
		w.overlaps++
	}
	w.holds++
	if token := h.token(); token != 0 {
		w.tokens++
		if token <= w.last {
			w.falling++
		}
		w.last = max(w.last, token)
	}
	w.holder = h
}

func (w *lossWitness) end(h majorityHold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !h.valid() {
		w.lost++
	}
	if w.holder == h {
		w.holder = nil
	}
}

// rolling: locks that are held while all servers are restarted, one after the other, a lease apart.
func (x *lossTrial) rolling(t *testing.T) {
	const ttl = 6 * time.Second
	c, rival := x.begin(t, x.addrs, ttl), x.begin(t, x.addrs, ttl)
	holds := holdAll(t, c, "rolling", ttl)
	overlaps, lost := 0, 0
	for _, s := range x.servers {
		x.restart(s, 0)
		time.Sleep(ttl) // a lease, in which each hold is renewed
		overlaps += seconds(t, rival, "rolling", ttl, holds)
	}
	for _, h := range holds {
		if !h.valid() {
			lost++
		}
		_ = h.unlock(t.Context()) // some are lost
	}
	x.put("servers are restarted one after the other, a lease apart: holds lost", "%d of %d", lost, len(holds))
	x.put("the same: a second holder beside the first", "%d of %d", overlaps, len(holds))
	if x.isCoord() && (lost > 0 || overlaps > 0) {
		t.Errorf("%d of %d holds lost, %d overlaps: want none", lost, len(holds), overlaps)
	}
}

// bare: locks that were granted by two servers, because the third one was down. It comes back, and one of the two
// restarts.
func (x *lossTrial) bare(t *testing.T) {
	const ttl = 6 * time.Second
	c, rival := x.begin(t, x.addrs, ttl), x.begin(t, x.addrs, ttl)
	x.servers[2].Kill()
	holds := holdAll(t, c, "bare", ttl)
	x.servers[2].Restart()
	x.restart(x.servers[0], 0)
	overlaps := seconds(t, rival, "bare", ttl, holds)
	for _, h := range holds {
		_ = h.unlock(t.Context()) // some are lost
	}
	x.put("granted by two servers; the third one comes back, one of the two restarts empty: a second holder", "%d of %d", overlaps, len(holds))
	if x.isCoord() && overlaps > 0 {
		t.Errorf("%d of %d overlaps: want none", overlaps, len(holds))
	}
}

// holdAll takes locks, which are renewed.
func holdAll(t *testing.T, c majority, of string, ttl time.Duration) (holds []majorityHold) {
	t.Helper()
	for i := range 20 {
		h, err := c.lock(t.Context(), fmt.Sprint(of, "/", i), ttl)
		if err != nil {
			t.Fatal(err)
		}
		holds = append(holds, h)
	}
	return holds
}

// seconds is how many of the locks rival gets while the first holder may think that it holds.
func seconds(t *testing.T, rival majority, of string, ttl time.Duration, holds []majorityHold) (n int) {
	for i, h := range holds {
		other, err := rival.try(t.Context(), fmt.Sprint(of, "/", i), ttl)
		if err != nil {
			continue
		}
		if h.valid() {
			n++
		}
		_ = other.unlock(t.Context()) // what it could not do lapses
	}
	return n
}

// hung: a server hangs. How many calls take longer than one should have to wait?
func (x *lossTrial) hung(t *testing.T) {
	const slow, each = 100 * time.Millisecond, 2 * time.Second
	for _, i := range []int{0, 2} {
		c := x.begin(t, x.addrs, 8*time.Second)
		x.servers[i].Pause()
		calls, late, longest := 0, 0, time.Duration(0)
		timed := func(do func() error) {
			start := time.Now()
			if err := do(); err != nil {
				t.Logf("%s, server %d hangs: %v", x.lib.name, i+1, err)
			}
			took := time.Since(start)
			if calls++; took > slow {
				late++
			}
			longest = max(longest, took)
		}
		for begun := time.Now(); time.Since(begun) < each; {
			var h majorityHold
			timed(func() (err error) {
				h, err = c.lock(t.Context(), fmt.Sprintf("hung/%d/%d", i, calls), 8*time.Second)
				return err
			})
			if h != nil {
				timed(func() error { return h.unlock(t.Context()) })
			}
		}
		x.servers[i].Resume()
		x.put(fmt.Sprintf("server %d hangs: calls that take longer than %v", i+1, slow), "%d of %d, the longest %v", late, calls, longest.Round(time.Millisecond))
	}
}
