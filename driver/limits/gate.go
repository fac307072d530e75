package limits

import (
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/driver"
)

// Gate opens one State to many goroutines at once, for a store whose state is in the process.
// While it is open, asks of one limit that take permits and want no more are answered by one
// atomic step each, just as the State would answer them. It can be, because over a short time
// little of a State changes:
//
//   - Of a window, until its current sub-window ends: how many permits are left. Which of the
//     older ones count is settled until then.
//   - Of a token bucket: when it would be full again. That moment, counted in credits, moves
//     on by what is granted, and by nothing else.
//
// Whoever has the State to himself, under the store's lock, shuts the gate before he looks at
// the State, and may open it afterwards. An ask may come with a time that has passed since, if
// its goroutine was held up: it counts at the time that it came with, or at that of the last
// opening if this is later, both of which are while it was being asked.
//
// The zero Gate is shut for ever. Its times are those of the State; the clock must not go back.
type Gate struct {
	// What does not change.
	limit        driver.Limit
	most         int64 // that one ask can be granted
	grid               // of a window
	refill, unit int64 // of a bucket, as in State
	cap, base    int64 // of a bucket; its credits count from base on

	// Of whoever holds the store's lock.
	opened int64 // word, when it was opened; below 0 while it is shut
	used   bool  // something was granted when it was open last
	looked int64 // when Open was called last

	// What every ask reads, and the first of it writes: far from the limit, by which a gate is
	// found.
	word  atomic.Int64 // window: permits left. Bucket: credits at which it is full. Below 0: shut
	ends  atomic.Int64 // the gate does not answer from then on
	reset atomic.Int64 // window: when the newest permits leave it
	retry atomic.Int64 // window: when the oldest permits leave it
}

const (
	gateShut = -1
	// gateOpen is for how long, in microseconds, a gate stays open: a store has its housekeeping
	// to do when somebody comes by, and the time of a bucket's last grant is not known more
	// exactly.
	gateOpen = 100_000
	// maxCount bounds the credits that a bucket's gate counts to.
	maxCount = 1 << 61
)

// Init makes g, which is zero, a gate for asks of l, which is normal, from now on. It is shut.
func (g *Gate) Init(l driver.Limit, now int64) {
	g.limit, g.most, g.opened, g.looked = l, int64(l.Max()), gateShut, clamp(now)
	g.word.Store(gateShut)
	if l.Algorithm == driver.TokenBucket {
		g.refill, g.unit = l.Refill()
		g.cap, g.base = int64(l.Burst)*g.unit, clamp(now)
		return
	}
	g.grid = gridOf(&l)
}

// Serves reports whether g is for asks of l.
func (g *Gate) Serves(l *driver.Limit) bool {
	return g.limit.Rate == l.Rate && g.limit.Per == l.Per && g.limit.Burst == l.Burst && g.limit.Algorithm == l.Algorithm
}

// Open opens g, which is shut, for s as it stands now, if it can answer anything. The State's
// last grant was one of the gate's limit.
func (g *Gate) Open(s *State, now int64) {
	now = clamp(now)
	if g.limit.Algorithm == driver.TokenBucket {
		g.openBucket(s, now)
	} else {
		g.openWindow(s, now)
	}
	g.looked = now
}

func (g *Gate) openWindow(s *State, now int64) {
	if s.kind != windowed || s.width != g.width || s.span != g.span {
		return
	}
	var v windowView
	v.read(s, g.grid, now)
	left, k := int64(g.limit.Rate)-v.sum, s.slots.len()
	if left < 0 || v.gone == k || v.at > now {
		return
	}
	newest := s.slots.at(k - 1).index
	if left > 0 && newest != v.index {
		return // nothing was granted now, and so what was asked was too much
	}
	oldest := v.gone
	for s.slots.at(oldest).n == 0 { // all of it was given back
		oldest++
	}
	move(&g.reset, v.leaves(newest))
	move(&g.retry, v.leaves(s.slots.at(oldest).index))
	g.open(left, now, min((v.index+1)*v.width, now+gateOpen))
}

func (g *Gate) openBucket(s *State, now int64) {
	if s.kind != bucketed || s.rate != g.refill || s.unit != g.unit || now < g.base || g.Spent(now) {
		return
	}
	var v bucketView
	v.read(s, &g.limit, now)
	if v.at == now && v.debt == v.owed { // a wider burst has left more than this one sees
		g.open(g.refill*(now-g.base)+v.debt, now, now+gateOpen)
	}
}

// Spent reports whether g can never be opened again: another has to take its place.
func (g *Gate) Spent(now int64) bool {
	return g.limit.Algorithm == driver.TokenBucket && clamp(now)-g.base > maxCount/g.refill-gateOpen
}

// open lets asks in. That ends never goes back, and is never late, keeps them right: who finds
// the word as it is, finds it in the time that ends has been for, or a later one.
//
// A gate that nobody is likely to come to in time stays shut, for to open and shut it takes
// longer than it saves.
func (g *Gate) open(word, now, ends int64) {
	if word > 0 && !g.used && now-g.looked > ends-now {
		return
	}
	move(&g.ends, ends)
	g.opened = word
	g.word.Store(word)
}

// move stores v, which costs more than to see that it is there.
func move(a *atomic.Int64, v int64) {
	if a.Load() != v {
		a.Store(v)
	}
}

// Shut ends what Open began, and books in s what was granted in between.
func (g *Gate) Shut(s *State, now int64) {
	if g.opened < 0 {
		return
	}
	opened, word := g.opened, g.word.Swap(gateShut)
	g.opened, g.used = gateShut, word != opened
	switch {
	case word == opened:
	case g.limit.Algorithm == driver.TokenBucket:
		// Others may have been granted something after the caller read the clock. After
		// each grant the debt was at most cap.
		soonest := g.base + ceilDiv(max(word-g.cap, 0), g.refill)
		s.last = max(s.last, min(clamp(now), g.ends.Load()), soonest)
		s.debt = max(word-g.refill*(s.last-g.base), 0)
		s.over, s.cap, s.wide = 0, g.cap, max(s.wide, g.cap)
	default:
		newest := s.slots.at(s.slots.len() - 1)
		newest.n += opened - word
		s.sum += opened - word
		s.last = max(s.last, newest.index*s.width)
	}
}

// Word is what Take is given. It is read before the clock is.
func (g *Gate) Word() int64 { return g.word.Load() }

// Take answers an ask for at least least and at most n permits, at a time that was read after
// word was. It does not answer all: then the State has to.
func (g *Gate) Take(word, now int64, least, n int) (q driver.Quick, ok bool) {
	ends := g.ends.Load()
	if word < 0 || now >= ends || least < 1 || n < least || int64(n) > g.most {
		return q, false
	}
	if g.refill > 0 {
		return g.takeBucket(word, now, int64(least), int64(n))
	}
	return g.takeWindow(now, ends, int64(least), int64(n))
}

func (g *Gate) takeWindow(now, ends, least, n int64) (q driver.Quick, ok bool) {
	left := g.word.Load()
	for left >= least {
		granted := min(n, left)
		if g.word.CompareAndSwap(left, left-granted) {
			return driver.Quick{N: int(granted), Remaining: int(left - granted), ResetAfter: time.Duration(g.reset.Load()-now) * time.Microsecond}, true
		}
		left = g.word.Load()
	}
	if left != 0 || least != 1 {
		return q, false
	}
	q.RetryAfter = time.Duration(g.retry.Load()-now) * time.Microsecond
	q.ResetAfter = time.Duration(g.reset.Load()-now) * time.Microsecond
	// None of it was of another time.
	return q, g.ends.Load() == ends
}

func (g *Gate) takeBucket(word, now, least, n int64) (q driver.Quick, ok bool) {
	at := g.refill * (now - g.base)
	for first := true; word >= 0; first = false {
		debt := max(word-at, 0)
		granted, room := n, g.cap-debt
		if n*g.unit > room {
			granted = over(max(room, 0), g.unit)
		}
		if granted < least {
			if !first { // others were granted what they asked for later
				return q, false
			}
			q.Remaining = int(over(max(room, 0), g.unit))
			q.RetryAfter = time.Duration(over(least*g.unit-room+g.refill-1, g.refill)) * time.Microsecond
			q.ResetAfter = g.fullIn(debt)
			return q, true
		}
		debt += granted * g.unit
		if g.word.CompareAndSwap(word, at+debt) {
			return driver.Quick{N: int(granted), Remaining: int(over(g.cap-debt, g.unit)), ResetAfter: g.fullIn(debt)}, true
		}
		word = g.word.Load()
	}
	return q, false
}

// fullIn is how long a debt takes to drain.
func (g *Gate) fullIn(debt int64) time.Duration {
	return time.Duration(over(debt+g.refill-1, g.refill)) * time.Microsecond
}

// over is a/b, which is mostly a.
func over(a, b int64) int64 {
	if b == 1 {
		return a
	}
	return a / b
}
