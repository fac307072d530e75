package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
)

// account is one state of a key, and the limit under which it changed last. The
// accounts of one key, seldom more than one, are a list; an absent account is a
// fresh one.
type account struct {
	state limits.State
	limit driver.Limit
	next  *account
}

// find looks for the account of l in the list.
func (acc *account) find(l *driver.Limit) *account {
	for acc != nil && !acc.limit.Shares(*l) {
		acc = acc.next
	}
	return acc
}

// accountsIdle reports whether the list says no more than its absence would. The shard is locked.
func (s *Store) accountsIdle(first *account, now instant) bool {
	for acc := first; acc != nil; acc = acc.next {
		if acc.state.Expiry(acc.limit, s.clock.unixMicro(now)) > 0 {
			return false
		}
	}
	return true
}

type limitShard = shard[account]

func (s *Store) limitShard(key string) *limitShard { return &s.limits.shards[s.limits.index(key)] }

// enter reads the clock in a shard that the caller has locked: whoever comes
// later sees a later time.
func (s *Store) enter(sh *limitShard) (now instant) {
	if now = s.clock.now(); now >= sh.due {
		s.limits.tidy(sh, now)
	}
	return now
}

// put makes state the account of l, in a shard that the caller has locked.
func (s *Store) put(sh *limitShard, key string, l *driver.Limit, state limits.State, now instant) {
	first := sh.get(key)
	if acc := first.find(l); acc != nil {
		acc.state, acc.limit = state, *l
		return
	}
	acc := &account{state: state, limit: *l}
	if first == nil {
		s.limits.add(sh, key, acc, now)
		return
	}
	acc.next, first.next = first.next, acc
}

// takeLocked evaluates one request, in a shard that the caller has locked.
func (s *Store) takeLocked(one *driver.TakenOne, sh *limitShard, key string, l *driver.Limit, a *driver.Ask, now instant) {
	acc := sh.get(key).find(l)
	if acc == nil {
		s.takeFresh(one, sh, key, l, a, now)
		return
	}
	if acc.state.TakeInto(one, l, s.clock.unixMicro(now), a) {
		acc.limit = *l
	}
}

// takeFresh is takeLocked for a state that is not there.
func (s *Store) takeFresh(one *driver.TakenOne, sh *limitShard, key string, l *driver.Limit, a *driver.Ask, now instant) {
	var state limits.State
	if state.TakeInto(one, l, s.clock.unixMicro(now), a) {
		s.put(sh, key, l, state, now)
	}
}

// TakeOne evaluates one request. Its checks are short for a request that is plain.
func (b *backend) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (one driver.TakenOne, err error) {
	if b.closed.Load() || ctx.Err() != nil || key == "" || !plain(&l, &a) {
		if err := b.checkAsk(ctx, key, l, a); err != nil {
			return one, err
		}
	}
	s := b.store
	sh := s.limitShard(key)
	sh.Lock()
	s.takeLocked(&one, sh, key, &l, &a, s.enter(sh))
	sh.Unlock()
	return one, nil
}

// plain reports whether limits.Check surely passes a.
func plain(l *driver.Limit, a *driver.Ask) bool {
	most := l.Rate
	if l.Algorithm == driver.TokenBucket {
		most = l.Burst
	}
	return 0 <= a.Min && a.Min <= a.N && a.N <= most && a.MaxDelay == 0 && a.ID == ""
}

// Take evaluates asks in order.
func (b *backend) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	if err := b.checkAsk(ctx, key, l, driver.Ask{}); err != nil {
		return driver.Taken{}, err
	}
	for _, a := range asks {
		if err := limits.Check(l, a); err != nil {
			return driver.Taken{}, err
		}
	}
	if len(asks) == 0 {
		asks = []driver.Ask{{}} // for what remains
		one, err := b.TakeOne(ctx, key, l, asks[0])
		return driver.Taken{Remaining: one.Remaining, ResetAfter: one.ResetAfter}, err
	}
	taken := driver.Taken{Asks: make([]driver.Granted, len(asks))}
	s := b.store
	sh := s.limitShard(key)
	sh.Lock()
	defer sh.Unlock()
	now := s.enter(sh)
	var one driver.TakenOne
	for i := range asks {
		s.takeLocked(&one, sh, key, &l, &asks[i], now)
		taken.Asks[i], taken.Remaining, taken.ResetAfter = one.Granted, one.Remaining, one.ResetAfter
	}
	return taken, nil
}

// Reset forgets the state of key under l.
func (b *backend) Reset(ctx context.Context, key string, l driver.Limit) error {
	if err := b.checkAsk(ctx, key, l, driver.Ask{}); err != nil {
		return err
	}
	s := b.store
	sh := s.limitShard(key)
	sh.Lock()
	defer sh.Unlock()
	first := sh.get(key)
	acc := first.find(&l)
	switch {
	case acc == nil:
	case acc == first && acc.next == nil:
		sh.set(key, nil)
	case acc == first:
		sh.set(key, acc.next)
	default:
		before := first
		for before.next != acc {
			before = before.next
		}
		before.next = acc.next
	}
	return nil
}

// Refund gives back n of what the request id was granted.
func (b *backend) Refund(ctx context.Context, key string, l driver.Limit, id string, n int) error {
	if err := b.checkAsk(ctx, key, l, driver.Ask{}); err != nil {
		return err
	}
	s := b.store
	sh := s.limitShard(key)
	sh.Lock()
	defer sh.Unlock()
	now := s.enter(sh)
	if acc := sh.get(key).find(&l); acc != nil && acc.state.Refund(l, s.clock.unixMicro(now), id, n) {
		acc.limit = l
	}
	return nil
}

// Charge debits n permits, whatever is left, or gives -n back.
func (b *backend) Charge(ctx context.Context, key string, l driver.Limit, n int) (c driver.Charged, err error) {
	if err := b.checkAsk(ctx, key, l, driver.Ask{}); err != nil {
		return c, err
	}
	if err := limits.CheckCharge(n); err != nil {
		return c, err
	}
	s := b.store
	sh := s.limitShard(key)
	sh.Lock()
	defer sh.Unlock()
	now := s.enter(sh)
	acc := sh.get(key).find(&l)
	if acc == nil {
		var fresh limits.State
		c, changed := fresh.Charge(l, s.clock.unixMicro(now), n)
		if changed {
			s.put(sh, key, &l, fresh, now)
		}
		return c, nil
	}
	c, changed := acc.state.Charge(l, s.clock.unixMicro(now), n)
	if changed {
		acc.limit = l
	}
	return c, nil
}

func (b *backend) checkAsk(ctx context.Context, key string, l driver.Limit, a driver.Ask) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	if err := checkKey(key); err != nil {
		return err
	}
	return limits.Check(l, a)
}

// TakeAll takes all demands or none, in one step. Demands on the same state add
// up. After a denial each answer says what there is and, where the demand was in
// the way, when to come again.
func (b *backend) TakeAll(ctx context.Context, demands []driver.Demand) ([]driver.Taken, error) {
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	groups, err := group(demands)
	if err != nil {
		return nil, err
	}
	s := b.store
	now, unlock := s.lockAll(groups)
	defer unlock()

	taken := make([]driver.Taken, len(demands))
	denied := false
	for i := range groups {
		denied = s.try(&groups[i], now, taken) || denied
	}
	if denied {
		for i := range groups {
			s.peek(&groups[i], now, taken)
		}
		return taken, nil
	}
	for i := range groups {
		s.keep(&groups[i], now)
	}
	return taken, nil
}

// demandGroup are the demands on one state.
type demandGroup struct {
	key   string
	shard int
	parts []demandPart
	trial limits.State // the state with the demands taken
}

// demandPart are the demands of one limit on a state, as one request: only their sum
// tells when they could be granted together.
type demandPart struct {
	limit   driver.Limit
	n       int
	indices []int // in the demands
	ns      []int
}

// group sorts demands by the state that they use.
func group(demands []driver.Demand) ([]demandGroup, error) {
	var groups []demandGroup
	for i, d := range demands {
		if err := checkKey(d.Key); err != nil {
			return nil, err
		}
		at := slices.IndexFunc(groups, func(g demandGroup) bool { return g.key == d.Key && g.parts[0].limit.Shares(d.Limit) })
		if at < 0 {
			at = len(groups)
			groups = append(groups, demandGroup{key: d.Key})
		}
		g := &groups[at]
		p := slices.IndexFunc(g.parts, func(p demandPart) bool { return p.limit == d.Limit })
		if p < 0 {
			p = len(g.parts)
			g.parts = append(g.parts, demandPart{limit: d.Limit})
		}
		part := &g.parts[p]
		part.indices, part.ns = append(part.indices, i), append(part.ns, d.N)
		if err := limits.Check(d.Limit, driver.Ask{Min: d.N, N: d.N}); err != nil {
			return nil, err
		}
		part.n += d.N
		if err := limits.Check(d.Limit, driver.Ask{Min: part.n, N: part.n}); err != nil {
			return nil, fmt.Errorf("demands on one key: %w", err)
		}
	}
	return groups, nil
}

// lockAll locks the shards of groups, in the order in which everybody does.
func (s *Store) lockAll(groups []demandGroup) (instant, func()) {
	var indices []int
	for i := range groups {
		groups[i].shard = s.limits.index(groups[i].key)
		indices = append(indices, groups[i].shard)
	}
	slices.Sort(indices)
	indices = slices.Compact(indices)
	for _, i := range indices {
		s.limits.shards[i].Lock()
	}
	return s.clock.now(), func() {
		for _, i := range indices {
			s.limits.shards[i].Unlock()
		}
	}
}

// try takes the demands of g from a copy of its state.
func (s *Store) try(g *demandGroup, now instant, taken []driver.Taken) (denied bool) {
	g.trial = s.copyOf(g)
	at := s.clock.unixMicro(now)
	for _, p := range g.parts {
		one, _ := g.trial.Take(p.limit, at, driver.Ask{Min: p.n, N: p.n})
		denied = denied || one.N < p.n
		for i, index := range p.indices {
			granted := one.Granted
			granted.N = min(granted.N, p.ns[i])
			taken[index] = driver.Taken{Asks: []driver.Granted{granted}, Remaining: one.Remaining, ResetAfter: one.ResetAfter}
		}
	}
	return denied
}

// peek answers for a group of which nothing was taken.
func (s *Store) peek(g *demandGroup, now instant, taken []driver.Taken) {
	state := s.copyOf(g)
	for _, p := range g.parts {
		one, _ := state.Take(p.limit, s.clock.unixMicro(now), driver.Ask{})
		for _, index := range p.indices {
			t := &taken[index]
			t.Asks[0] = driver.Granted{RetryAfter: t.Asks[0].RetryAfter}
			t.Remaining, t.ResetAfter = one.Remaining, one.ResetAfter
		}
	}
}

// keep makes the trial the state.
func (s *Store) keep(g *demandGroup, now instant) {
	for _, p := range g.parts {
		if p.n > 0 { // not only peeks
			s.put(&s.limits.shards[g.shard], g.key, &p.limit, g.trial, now)
		}
	}
}

// copyOf is a state of its own that equals the one of g. A copy of the struct
// would share memory.
func (s *Store) copyOf(g *demandGroup) (state limits.State) {
	acc := s.limits.shards[g.shard].get(g.key).find(&g.parts[0].limit)
	if acc == nil {
		return state
	}
	stored, err := acc.state.MarshalBinary()
	if err == nil {
		err = state.UnmarshalBinary(stored)
	}
	if err != nil {
		panic("memory: a limit's state does not survive storage: " + err.Error())
	}
	return state
}
