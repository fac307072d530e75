package redis

import (
	"context"
	"slices"
	"time"

	"github.com/coordgo/coord/driver"
)

// How often places in line are looked at: while the server tells of grants, to say that who
// waits is alive; while it does not, to learn of offers, which last long enough then. The scripts forget those who were
// silent for eight times keepEvery, see lua/queue.lua.
const (
	keepEvery  = 2 * time.Second
	pollEvery  = 100 * time.Millisecond
	keepWithin = 2 * time.Second
)

// keep says at intervals, for all who wait, that they are alive. It sleeps while nobody does.
func (l *line) keep(ctx context.Context) {
	timer := time.NewTimer(keepEvery)
	defer timer.Stop()
	for {
		select {
		case <-l.stir:
			timer.Reset(l.pause())
			continue
		case <-l.asap:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		if l.refresh(ctx) {
			timer.Reset(l.pause())
		}
	}
}

// pause is short while a waiter in line gets no messages.
func (l *line) pause() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.waiters {
		if w.sub == nil || !w.sub.up {
			return pollEvery
		}
	}
	return l.every
}

// refresh looks at the places of all who wait, in one round trip to each server, and
// reports whether anyone does. It waits for no server: one that does not answer costs the
// places on others nothing.
func (l *line) refresh(ctx context.Context) bool {
	l.follow(ctx)
	parts := map[string][]*group{}
	for _, g := range l.groups() {
		part := l.b.part(g.lock)
		parts[part] = append(parts[part], g)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for part, groups := range parts {
		if _, under := l.refreshing[part]; under {
			l.refreshing[part] = true
			continue
		}
		l.refreshing[part] = false
		l.wg.Go(func() { l.refreshPart(ctx, part, groups) })
	}
	l.idle = len(l.waiters) == 0
	return !l.idle
}

// refreshPart looks at the places on one server. If others were to be looked at meanwhile, it
// makes the keeper look again.
func (l *line) refreshPart(ctx context.Context, part string, groups []*group) {
	for batch := range slices.Chunk(groups, maxBatch) {
		l.refreshBatch(ctx, batch)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refreshing[part] {
		signal(l.asap)
	}
	delete(l.refreshing, part)
}

// group is some who wait for one lock.
type group struct {
	lock    string
	waiters []*waiter
}

// follow makes those ask again whose lock is on another master of the cluster than it was:
// then they are told on another connection.
func (l *line) follow(ctx context.Context) {
	if l.b.cluster == nil {
		return
	}
	bound := driver.NewBound(ctx, keepWithin)
	defer bound.Stop()
	now := map[string]*subscription{}
	l.mu.Lock()
	for _, w := range l.waiters {
		now[w.lock] = nil
	}
	l.mu.Unlock()
	for lock := range now {
		now[lock] = l.subscriptionOf(bound, lock)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.waiters {
		if e := now[w.lock]; w.inLine && e != nil && e != w.sub {
			w.tell(true, 0)
		}
	}
}

// groups are those who are in line, by lock.
func (l *line) groups() []*group {
	l.mu.Lock()
	defer l.mu.Unlock()
	var groups []*group
	of := map[string]*group{}
	for _, w := range l.waiters {
		if !w.inLine {
			continue
		}
		g := of[w.lock]
		if g == nil || len(g.waiters) == maxBatch {
			g = &group{lock: w.lock}
			of[w.lock] = g
			groups = append(groups, g)
		}
		g.waiters = append(g.waiters, w)
	}
	return groups
}

// refreshBatch looks at the places of groups in one pipeline. Waiters about which the server says nothing ask for
// themselves, and learn what is wrong.
func (l *line) refreshBatch(ctx context.Context, groups []*group) {
	bound := driver.NewBound(ctx, keepWithin)
	defer bound.Stop()
	commands := make([]*command, len(groups))
	for i, g := range groups {
		args := []any{g.lock}
		for _, w := range g.waiters {
			args = append(args, w.id)
		}
		commands[i] = refreshScript.command(bound, args...)
	}
	replies := l.b.runAll(bound, 0, commands)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, r := range replies {
		said, _ := r.integers(1)
		for j, w := range groups[i].waiters {
			if j+1 < len(said) && said.at(j+1) == inLine && said.at(0) > 0 {
				w.tell(false, leaseEnds(said.at(0)))
			} else {
				w.tell(true, 0)
			}
		}
	}
}

// inLine is what refresh.lua says of a waiter that need not ask.
const inLine = 1
