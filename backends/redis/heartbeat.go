package redis

import (
	"context"
	"slices"
	"time"

	"github.com/coordgo/coord/driver"
)

// How often heartbeats are sent. With messages from the server they only show that waiters are alive. Without messages they
// also find offers, which last long enough for that. The scripts remove waiters after eight times heartbeatEvery
// without a heartbeat, see lua/queue.lua.
const (
	heartbeatEvery  = 2 * time.Second
	pollEvery       = 100 * time.Millisecond
	heartbeatWithin = 2 * time.Second
)

// heartbeats sends the heartbeats of all waiters, as long as there are some.
func (ws *waiters) heartbeats(ctx context.Context) {
	timer := time.NewTimer(heartbeatEvery)
	defer timer.Stop()
	for {
		select {
		case <-ws.joined:
			timer.Reset(ws.pause())
			continue
		case <-ws.refreshNow:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		if ws.refresh(ctx) {
			timer.Reset(ws.pause())
		}
	}
}

// pause is the time to the next heartbeat. It is short while a waiter gets no messages.
func (ws *waiters) pause() time.Duration {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.byNumber {
		if w.sub == nil || !w.sub.up {
			return pollEvery
		}
	}
	return ws.every
}

// refresh sends one heartbeat for all waiters, in one round trip to each server, and reports whether anybody waits. It
// waits for no server, so that a server that does not answer delays only its own waiters.
func (ws *waiters) refresh(ctx context.Context) bool {
	ws.follow(ctx)
	parts := map[string][]*group{}
	for _, g := range ws.groups() {
		part := ws.b.part(g.lock)
		parts[part] = append(parts[part], g)
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for part, groups := range parts {
		if _, under := ws.refreshing[part]; under {
			ws.refreshing[part] = true
			continue
		}
		ws.refreshing[part] = false
		ws.b.calls.Go(func() { ws.refreshPart(ctx, part, groups) })
	}
	ws.idle = len(ws.byNumber) == 0
	return !ws.idle
}

// refreshPart sends the heartbeats to one server. If refresh was called meanwhile, another one follows at once.
func (ws *waiters) refreshPart(ctx context.Context, part string, groups []*group) {
	for batch := range slices.Chunk(groups, maxBatch) {
		ws.refreshBatch(ctx, batch)
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.refreshing[part] {
		signal(ws.refreshNow)
	}
	delete(ws.refreshing, part)
}

// group is some waiters of one lock.
type group struct {
	lock    string
	waiters []*waiter
}

// follow makes waiters ask again if their lock moved to another master of the cluster: messages then come on another
// connection.
func (ws *waiters) follow(ctx context.Context) {
	if ws.b.cluster == nil {
		return
	}
	bound := driver.NewBound(ctx, heartbeatWithin)
	defer bound.Stop()
	now := map[string]*subscription{}
	ws.mu.Lock()
	for _, w := range ws.byNumber {
		now[w.lock] = nil
	}
	ws.mu.Unlock()
	for lock := range now {
		now[lock] = ws.subscriptionOf(bound, lock)
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.byNumber {
		if e := now[w.lock]; w.queued && e != nil && e != w.sub {
			w.notify(true, 0)
		}
	}
}

// groups returns the waiters that are in a queue, by lock.
func (ws *waiters) groups() []*group {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	var groups []*group
	of := map[string]*group{}
	for _, w := range ws.byNumber {
		if !w.queued {
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

// refreshBatch sends the heartbeats of groups in one pipeline. Waiters for which there is no answer ask again by
// themselves, and get the error.
func (ws *waiters) refreshBatch(ctx context.Context, groups []*group) {
	bound := driver.NewBound(ctx, heartbeatWithin)
	defer bound.Stop()
	commands := make([]*command, len(groups))
	for i, g := range groups {
		args := []any{g.lock}
		for _, w := range g.waiters {
			args = append(args, w.id)
		}
		commands[i] = refreshScript.command(bound, args...)
	}
	replies := ws.b.runAll(bound, 0, commands)
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for i, r := range replies {
		said, _ := r.integers(1)
		for j, w := range groups[i].waiters {
			if j+1 < len(said) && said.at(j+1) == stillQueued && said.at(0) > 0 {
				w.notify(false, leaseEnds(said.at(0)))
			} else {
				w.notify(true, 0)
			}
		}
	}
}

// stillQueued is the answer of refresh.lua for a waiter that need not ask again.
const stillQueued = 1
