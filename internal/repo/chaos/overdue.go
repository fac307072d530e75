package chaos

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// late is how long after the end of its context a call may return: what the contract
// allows, and something for what it does then.
const late = 100*time.Millisecond + 900*time.Millisecond

// processClock stands still while the machine has no time for this process: its ticks are
// counted by a goroutine that does nothing else. On a machine with thirty programs for two cores
// every call is late by seconds, for it is a long way from goroutine to goroutine; and so is the
// tick. A call that hangs outlasts any number of ticks.
type processClock struct {
	ticks atomic.Int64
	over  chan struct{}
}

const tick = 10 * time.Millisecond

func newProcessClock() *processClock {
	p := &processClock{over: make(chan struct{})}
	go func() {
		t := time.NewTicker(tick) // which leaves out what it is late for
		defer t.Stop()
		for {
			select {
			case <-t.C:
				p.ticks.Add(1)
			case <-p.over:
				return
			}
		}
	}()
	return p
}

func (p *processClock) stop() { close(p.over) }

// time is how long the process was alive.
func (p *processClock) time() time.Duration { return time.Duration(p.ticks.Load()) * tick }

// bystander waits for the end of a call's context, as the call does.
type bystander struct {
	op    string
	by    int // the goroutine that makes the call
	clock *processClock
	ctx   context.Context
	leave func() bool

	mu    sync.Mutex
	over  bool
	saw   time.Time     // when it saw the end
	lived time.Duration // of the clock then
	alarm *time.Timer   // for a call that is about to be late
	stack string        // where it was then
}

// watch has a bystander watch the context of the call that this goroutine is about to make.
func (p *processClock) watch(ctx context.Context, op string) *bystander {
	s := &bystander{op: op, by: goroutine(), clock: p, ctx: ctx}
	s.leave = context.AfterFunc(ctx, s.see)
	return s
}

func (s *bystander) see() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	s.saw, s.lived = time.Now(), s.clock.time()
	s.alarm = time.AfterFunc(late/2, s.look)
}

// look notes where the call hangs.
func (s *bystander) look() {
	s.mu.Lock()
	early := late/2 - (s.clock.time() - s.lived)
	if over := s.over; over || early > 0 {
		if !over {
			s.alarm.Reset(early)
		}
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	stack := stackOf(s.by)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stack = stack
}

// done ends the watch: the call has returned. It gives what is wrong about that, or "",
// and how late the bystander itself was.
func (s *bystander) done() (wrong string, stalled time.Duration) {
	now := time.Now()
	s.leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	deadline, bounded := s.ctx.Deadline()
	seen := now // if there was an end, it has not been seen
	if !s.saw.IsZero() {
		s.alarm.Stop()
		seen = s.saw
		if d := s.clock.time() - s.lived; d > late {
			wrong = fmt.Sprintf("%s returned %v after its context had ended (%v), or %v of them without the waits for the machine; after %v it was at\n%s",
				s.op, now.Sub(s.saw).Round(time.Millisecond), s.ctx.Err(), d, late/2, s.stack)
		}
	}
	if bounded {
		stalled = max(seen.Sub(deadline), 0)
	}
	return wrong, stalled
}

// goroutine is the number of the one that calls.
func goroutine() (number int) {
	buf := make([]byte, 64)
	buf = buf[:runtime.Stack(buf, false)]
	if _, err := fmt.Sscanf(string(buf), "goroutine %d ", &number); err != nil {
		panic(fmt.Sprintf("chaos: the stack of a goroutine begins with %q", buf))
	}
	return number
}

// stackOf is where a goroutine is.
func stackOf(number int) string {
	buf := make([]byte, 4<<20)
	buf = buf[:runtime.Stack(buf, true)]
	begin := fmt.Appendf(nil, "goroutine %d ", number)
	for _, one := range bytes.Split(buf, []byte("\n\n")) {
		if bytes.HasPrefix(one, begin) {
			return indent(string(one))
		}
	}
	return "    (it is gone)"
}

func indent(s string) string {
	return "    " + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n    ")
}
