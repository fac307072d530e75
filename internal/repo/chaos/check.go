package chaos

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// checker sees all that clients see, and compares.
type checker struct {
	scenario *Scenario
	clock    *processClock

	mu       sync.Mutex
	start    time.Time
	keys     []keyState
	takes    []take
	rep      Report
	window   []window // of breaks
	limit    time.Time
	progress chan struct{} // one is sent when work went on
}

// take is one permit, granted between the two instants.
type take struct{ sent, got time.Time }

// window is the time of a break, until its heal and one TTL more.
type window struct{ from, to time.Time }

func newChecker(s *Scenario) *checker {
	c := &checker{scenario: s, clock: newProcessClock(), start: time.Now(), progress: make(chan struct{}, 1)}
	for i := range s.Keys {
		c.keys = append(c.keys, newKey(fmt.Sprint("lock ", i), 1))
	}
	c.rep = Report{Name: s.Name, Clients: s.Clients, Keys: s.Keys, TTL: s.TTL, Limit: s.Limit.String(), Grants: map[string]int{}, Errors: map[string]int{}}
	return c
}

// share adds keys that several hold, if the store has such.
func (c *checker) share(can bool) {
	c.rep.Grants[exclusive] = 0
	if !can {
		c.rep.Skipped = "no shared holds: the store does not claim " + string(driver.Shared)
		return
	}
	for i := range sharedKeys {
		c.keys = append(c.keys, newKey(fmt.Sprint("semaphore ", i), of), newKey(fmt.Sprint("read/write lock ", i), many))
	}
	for _, mode := range []string{permits, read, write, downgrade} {
		c.rep.Grants[mode] = 0
	}
}

// asks is told before a key is asked for, and gives the last token of it that it knows.
func (c *checker) asks(k int) coord.Token {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keys[k].last
}

// enter: l was granted. Holders before it who leave no room must have given up, or have seen their loss.
func (c *checker) enter(a ask, l *coord.Lock, after coord.Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.Err() != nil {
		c.rep.Lost++
		return // lost before it began: it says nothing
	}
	overlap, token := c.keys[a.key].enter(l, a.weight, after)
	c.wrong(&c.rep.Overlaps, overlap)
	c.wrong(&c.rep.Tokens, token)
	c.rep.Grants[a.mode]++
	c.worked()
}

// shrink: writer is about to be unlocked, and is held on by reader.
func (c *checker) shrink(k int, writer, reader *coord.Lock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys[k].shrink(writer, reader)
	c.rep.Grants[downgrade]++
}

// leave: the holder of l is about to unlock.
func (c *checker) leave(k int, l *coord.Lock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.Err() != nil {
		c.rep.Lost++
	}
	c.keys[k].leave(l)
}

// returned: the call that s watched came back.
func (c *checker) returned(s *bystander, err error) {
	wrong, stalled := s.done()
	op := s.op
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rep.LongestStall = max(c.rep.LongestStall, stalled)
	if wrong != "" {
		c.rep.Late = append(c.rep.Late, c.at()+wrong)
	}
	if err == nil {
		return
	}
	if !isExpected(err) {
		c.rep.Unexpected = append(c.rep.Unexpected, c.at()+fmt.Sprintf("%s: %v", op, err))
		return
	}
	for _, e := range expected {
		if strings.Contains(err.Error(), e.Error()) {
			c.rep.Errors[op+": "+e.Error()]++
			return
		}
	}
	c.rep.Errors[op+": other"]++
}

// answered: the limit said yes or no.
func (c *checker) answered(sent, got time.Time, allowed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = got
	if allowed {
		c.takes = append(c.takes, take{sent, got})
	} else {
		c.rep.Denied++
	}
	c.worked()
}

func (c *checker) closed(took time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rep.LongestClose = max(c.rep.LongestClose, took)
	if err != nil {
		c.rep.Unexpected = append(c.rep.Unexpected, c.at()+fmt.Sprintf("Close: %v", err))
	}
}

// wrong notes a breach, if there is one: a failure, unless the store is lossy and was broken just now. checker.mu is held.
func (c *checker) wrong(list *[]string, text string) {
	if text == "" {
		return
	}
	text = c.at() + text
	if c.scenario.Lossy && c.inWindow(time.Now()) {
		c.documented(text)
		return
	}
	*list = append(*list, text)
}

// at says when something went wrong, and during which break. checker.mu is held.
func (c *checker) at() string {
	now := time.Now()
	at := fmt.Sprintf("%v", now.Sub(c.start).Round(time.Millisecond))
	if n := len(c.rep.Breaks); n > 0 {
		at += fmt.Sprintf(", %v after the begin of %q", now.Sub(c.window[n-1].from).Round(time.Millisecond), c.rep.Breaks[n-1].Name)
	}
	return at + ": "
}

// documented notes a breach that a lossy store is known for. checker.mu is held.
func (c *checker) documented(text string) {
	const shown = 5
	if c.rep.Failover++; len(c.rep.Failures) < shown {
		c.rep.Failures = append(c.rep.Failures, text)
	}
}

// inWindow reports whether the store was broken at t. checker.mu is held.
func (c *checker) inWindow(t time.Time) bool {
	for _, w := range c.window {
		if !t.Before(w.from) && (w.to.IsZero() || !t.After(w.to)) {
			return true
		}
	}
	return false
}

func (c *checker) broken(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.window = append(c.window, window{from: time.Now()})
	c.rep.Breaks = append(c.rep.Breaks, BreakReport{Name: name})
}

func (c *checker) healed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.window[len(c.window)-1].to = time.Now().Add(c.scenario.TTL)
}

// worked tells awaitWork to look. checker.mu is held.
func (c *checker) worked() {
	select {
	case c.progress <- struct{}{}:
	default:
	}
}

// awaitWork waits until every key has been locked anew and the limit has answered, and
// says what has not.
func (c *checker) awaitWork(ctx context.Context, settle time.Duration) (took time.Duration, missing string) {
	healed := time.Now()
	timeout := time.NewTimer(settle)
	defer timeout.Stop()
	for {
		missing = c.missing(healed)
		if missing == "" {
			break
		}
		select {
		case <-c.progress:
			continue
		case <-timeout.C:
		case <-ctx.Done():
		}
		break
	}
	took = time.Since(healed)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rep.Breaks[len(c.rep.Breaks)-1].Recovery = took
	if missing != "" {
		c.rep.Stuck = append(c.rep.Stuck, fmt.Sprintf("%s: %v after the heal: %s", c.rep.Breaks[len(c.rep.Breaks)-1].Name, took, missing))
	}
	return took, missing
}

func (c *checker) missing(since time.Time) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for k := range c.keys {
		if c.keys[k].granted.Before(since) {
			out = append(out, c.keys[k].name+" was not taken")
		}
	}
	if c.limit.Before(since) {
		out = append(out, "the limit did not answer")
	}
	return strings.Join(out, ", ")
}
