package server

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/config"
)

// locksSeen are the holds of the keys that begin in some way.
type locksSeen struct {
	prefix sight
	asked  time.Time
	at     time.Time // when the list is from: before asked, if there is an error
	list   []lockSeen
	more   bool // there are more keys than these
	ours   bool // the store lists no keys: these are of this server alone
	err    error
}

// lockSeen is a hold, or a key of which the store shows none that coord knows.
type lockSeen struct {
	key   string
	until time.Time
	coord.Holder
	err error
}

// name is another one for each hold.
func (l *lockSeen) name() string { return l.Mode.String() + "\x00" + l.ID + "\x00" + l.key }

// locks asks for the holds of the keys that begin so: one request for the list, and up to three for each key.
func (m *sampler) locks(ctx context.Context, prefix sight, answers bool) (l locksSeen) {
	bound := sampleTime
	if !answers {
		bound = answersIn
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	l.prefix, l.asked = prefix, time.Now()
	anybody := newCaller("", config.Allow{Rights: []config.Right{config.Read}})
	found, err := &listAnswer{Keys: []string{prefix.text}}, error(nil)
	if !prefix.key {
		found, err = m.s.list(ctx, anybody, &listRequest{prefix.text})
	}
	switch {
	case errors.Is(err, coord.ErrUnsupported):
		l.ours, found = true, m.s.ownKeys(prefix.text)
	case err != nil:
		l.err = err
		return l
	}
	slices.Sort(found.Keys)
	l.more = found.More
	for _, key := range found.Keys {
		seen, err := m.holders(ctx, key)
		if err != nil && ctx.Err() != nil && len(l.list) > 0 {
			l.more = true
			break
		}
		if err != nil {
			l.err = err
			return l
		}
		l.list = append(l.list, seen...)
	}
	l.at = time.Now()
	return l
}

// holders asks for those of a key.
func (m *sampler) holders(ctx context.Context, key string) (list []lockSeen, err error) {
	ctx, cancel := context.WithTimeout(ctx, answersIn)
	defer cancel()
	found, err := m.s.holdersIn(ctx, key)
	if errors.Is(err, coord.ErrCorrupt) || errors.Is(err, coord.ErrInvalid) { // another program's, or another mistake of the key alone
		return []lockSeen{{key: key, err: err}}, nil
	}
	now := time.Now()
	for _, h := range found {
		list = append(list, lockSeen{key: key, until: now.Add(h.TTL), Holder: h})
	}
	return list, err
}

// ownKeys are those that this server holds for others, and the one that somebody asks for.
func (s *Server) ownKeys(asked string) *listAnswer {
	s.mu.Lock()
	holds := slices.Collect(maps.Values(s.holds))
	s.mu.Unlock()
	keys := make(map[string]bool)
	if asked != "" {
		keys[asked] = true
	}
	a := &listAnswer{Keys: []string{}}
	for _, h := range holds {
		h.mu.Lock()
		for _, l := range h.locks {
			if strings.HasPrefix(l.Key(), asked) {
				keys[l.Key()] = true
			}
		}
		h.mu.Unlock()
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if a.More = len(a.Keys) == maxListed; a.More {
			break
		}
		a.Keys = append(a.Keys, key)
	}
	return a
}

// sameEnd is how far two readings of one end of a lease differ at most: the store was asked a little earlier or later.
const sameEnd = 500 * time.Millisecond

// after is l where before is what was known. The end of a lease that was not renewed stays the same time.
func (l locksSeen) after(before locksSeen) locksSeen {
	if l.err != nil {
		l.list, l.at, l.more, l.ours = before.list, before.at, before.more, before.ours
		return l
	}
	known := make(map[string]time.Time, len(before.list))
	for i := range before.list {
		known[before.list[i].name()] = before.list[i].until
	}
	for i := range l.list {
		if until, ok := known[l.list[i].name()]; ok && l.list[i].until.Sub(until).Abs() < sameEnd {
			l.list[i].until = until
		}
	}
	return l
}

// with is l and what else was asked for, by the keys.
func (l locksSeen) with(other locksSeen) locksSeen {
	if l.at.IsZero() && l.err == nil {
		return other
	}
	known := make(map[string]bool, len(l.list))
	for i := range l.list {
		known[l.list[i].name()] = true
	}
	l.list = slices.Clone(l.list)
	for i := range other.list {
		if !known[other.list[i].name()] {
			l.list = append(l.list, other.list[i])
		}
	}
	slices.SortStableFunc(l.list, func(a, b lockSeen) int { return cmp.Compare(a.key, b.key) })
	l.more, l.ours, l.err = l.more || other.more, l.ours || other.ours, cmp.Or(l.err, other.err)
	return l
}

// limitsSeen are the limits of the configuration, and the accounts that this server has decided on.
type limitsSeen struct {
	at   time.Time // when the list is from
	list []limitSeen
	more bool
	err  error
	of   string // the key that the error is of; "" is all
}

type limitSeen struct {
	counted
	rates
	most, left int
	full       time.Duration // until all permits are back
}

// limits asks for what is left of each, in one request each.
func (m *sampler) limits(ctx context.Context, decided map[counted]rates) (l limitsSeen) {
	ctx, cancel := context.WithTimeout(ctx, sampleTime)
	defer cancel()
	cfg := m.s.client.Config()
	overrides := make(map[string]coord.Override)
	if cfg.Overrides {
		list, err := m.s.client.Overrides(ctx)
		if err != nil && !errors.Is(err, coord.ErrUnsupported) {
			l.err = err
			return l
		}
		for _, o := range list {
			overrides[o.Key] = o
		}
	}
	accounts := accountsOf(cfg, decided)
	if l.more = len(accounts) > maxListed; l.more {
		accounts = accounts[:maxListed]
	}
	for _, a := range accounts {
		seen, err := m.peek(ctx, a, overrides)
		if err != nil && ctx.Err() != nil && len(l.list) > 0 {
			l.more = true
			break
		}
		if err != nil {
			l.err, l.of = err, a.key
			return l
		}
		seen.rates = decided[a]
		l.list = append(l.list, seen)
	}
	slices.SortStableFunc(l.list, func(a, b limitSeen) int {
		return cmp.Or(cmp.Compare(b.used(), a.used()), cmp.Compare(b.denied, a.denied), cmp.Compare(a.key, b.key))
	})
	l.at = time.Now()
	return l
}

// accountsOf are those of the configuration and those that were decided on, the most denied first.
func accountsOf(cfg *config.Config, decided map[counted]rates) []counted {
	all := maps.Clone(decided)
	for name, limit := range cfg.Limits {
		a := counted{name, limit}
		all[a] = decided[a]
	}
	unnamed := func(a counted) int {
		if _, ok := cfg.Limits[a.key]; ok {
			return 0
		}
		return 1
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b counted) int {
		return cmp.Or(cmp.Compare(all[b].denied, all[a].denied), cmp.Compare(unnamed(a), unnamed(b)), cmp.Compare(a.key, b.key))
	})
}

// peek is what is left of an account.
func (m *sampler) peek(ctx context.Context, a counted, overrides map[string]coord.Override) (l limitSeen, err error) {
	ctx, cancel := context.WithTimeout(ctx, answersIn)
	defer cancel()
	r, err := m.s.client.Peek(ctx, a.key, a.limit)
	if err == nil {
		err = r.Degraded // the failure policy has answered, not the store
	}
	if err != nil {
		return l, err
	}
	limit := a.limit
	if o, ok := overrides[a.key]; ok {
		limit = o.Of(limit)
	}
	if limit, err = limit.Normal(); err != nil {
		return l, err
	}
	return limitSeen{counted: a, most: limit.Max(), left: max(r.Remaining, 0), full: r.ResetAfter}, nil
}

// used is the part of the permits that is taken, from 0 to 1.
func (l *limitSeen) used() float64 { return 1 - min(float64(l.left)/float64(l.most), 1) }

// after is l where before is what was known.
func (l limitsSeen) after(before limitsSeen) limitsSeen {
	if l.err != nil {
		l.list, l.at, l.more = before.list, before.at, before.more
	}
	return l
}
