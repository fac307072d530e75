package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coordgo/coord/driver"
)

// TryLock implements driver.Backend.
func (b *Backend) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if err := b.check(ctx, key, r); err != nil {
		return driver.Grant{}, err
	}
	var again backoff
	defer again.end()
	var made []try
	var seen map[*member]lease
	for {
		grants, err := b.attempt(ctx, key, r, &again)
		if err == nil {
			err = b.apart(ctx, key, r.ID, grants)
		}
		if err != nil {
			return driver.Grant{}, err
		}
		t := b.count(grants, driver.ErrLocked)
		if t.yes >= b.need {
			g, err := b.hold(ctx, key, r, grants)
			if err == nil {
				b.start(func() { b.complete(key, r, grants) })
			}
			if !errors.Is(err, driver.ErrNotHeld) {
				return g, err
			}
			if again.wait(ctx, 0) {
				continue
			}
			if ctx.Err() != nil {
				return driver.Grant{}, ctx.Err()
			}
			return driver.Grant{}, &driver.LockedError{} // the lease has ended on the way each time
		}
		made = append(made, try{grants, b.giveBack(ctx, key, r.ID, b.touched(grants))})
		split := t.yes > 0 && t.no > 0 && t.yes+t.no >= b.need // another may have the votes that are missing, and too few, too
		if split && t.no >= b.need {
			before := seen
			if seen = b.holders(ctx, key, grants); b.isOne(before, seen) {
				split = false
			}
		}
		if !split || !again.wait(ctx, b.rank(grants)) {
			if split && ctx.Err() != nil {
				return driver.Grant{}, ctx.Err()
			}
			return driver.Grant{}, b.refused(ctx, made, t)
		}
	}
}

// lease names a lease of a member.
type lease struct {
	id    string
	token driver.Token
}

// refusing are the members that have answered that the key is locked.
func (b *Backend) refusing(grants *round[vote]) (list []*member) {
	for i, a := range grants.answers {
		if a != nil && isLocked(a.err) {
			list = append(list, b.members[i])
		}
	}
	return list
}

// holders asks the members that refuse the key whose it is.
func (b *Backend) holders(ctx context.Context, key string, grants *round[vote]) map[*member]lease {
	r := ask(ctx, b, b.refusing(grants), holdKey{}, func(ctx context.Context, _ *member, s driver.Backend) (lease, error) {
		h, err := s.Inspect(ctx, key)
		return lease{h.ID, h.Token}, err
	})
	r.rest(ctx, all)
	found := make(map[*member]lease)
	for i, a := range r.answers {
		if a != nil && a.err == nil {
			found[r.members[i]] = a.value
		}
	}
	return found
}

// isOne reports whether a majority had leases of one and the same holder all the time from one look to the next. A contender
// gives its own back.
func (b *Backend) isOne(before, after map[*member]lease) bool {
	has := make(map[string]int)
	for m, l := range after {
		if before[m] == l {
			if has[l.id]++; has[l.id] >= b.need {
				return true
			}
		}
	}
	return false
}

// complete asks the members that have refused a hold, for the vote of a contender, to grant it, too: with a bare majority it
// would be lost with one member.
func (b *Backend) complete(key string, r driver.Request, grants *round[vote]) {
	bound := driver.NewBound(context.Background(), callBound)
	defer bound.Stop()
	_ = grants.gather(bound, all)
	refusing := b.refusing(grants)
	if c, _, now := b.holds.get(holdKey{key, r.ID}); now && len(refusing) > 0 {
		_ = b.regain(bound, refusing, driver.Hold{Key: key, Request: r}, c).gather(bound, all)
	}
}

// attempt asks every member for the hold. Unless a majority grants, by one token, it waits a moment for the members that are
// left.
func (b *Backend) attempt(ctx context.Context, key string, r driver.Request, again *backoff) (*round[vote], error) {
	r.Floor = b.tokens.next()
	sent := time.Now()
	grants := ask(ctx, b, b.members, holdKey{key, r.ID}, func(ctx context.Context, m *member, s driver.Backend) (vote, error) {
		if again.over.Load() { // it waited for the calls before it
			if _, _, now := b.holds.get(holdKey{key, r.ID}); !now {
				return vote{}, driver.NotSent(errUnwanted)
			}
		}
		g, err := s.TryLock(ctx, key, r)
		if err != nil {
			return vote{}, err
		}
		return b.newVote(m, holdKey{key, r.ID}, g, sent), nil
	})
	grants.began = sent
	if err := grants.gather(ctx, func() bool { return b.answered(b.count(grants, driver.ErrLocked)) }); err != nil {
		return grants, err
	}
	again.begin(time.Since(sent))
	grants.rest(ctx, func() bool { return b.stored(grants.votes(itself)) != 0 })
	return grants, nil
}

// apart refuses members that are one server under several names, or databases of one: its vote would count twice.
func (b *Backend) apart(ctx context.Context, key, id string, grants *round[vote]) error {
	for i, x := range grants.answers {
		if x == nil || x.err != nil || x.value.grant.Run == "" {
			continue
		}
		for k, y := range grants.answers[:i] {
			if y == nil || y.err != nil || process(x.value.grant) != process(y.value.grant) {
				continue
			}
			b.giveBack(ctx, key, id, b.members)
			return fmt.Errorf("%w: %s is the server of %s: want independent ones", driver.ErrInvalid, b.members[i], b.members[k])
		}
	}
	return nil
}

// process names the process that granted g, by its run.
func process(g driver.Grant) string {
	name, _, _ := strings.Cut(g.Run, ".")
	return name
}

// answered reports whether a majority serves, or none will.
func (b *Backend) answered(t tally) bool {
	serve := t.yes + t.no
	return serve >= b.need || serve+t.missing < b.need
}

// hold makes a hold of the grants of a majority. Its token is the one that a majority has stored, or else the greatest, once
// a majority has stored that: so a later majority has a member that counts on from it.
func (b *Backend) hold(ctx context.Context, key string, r driver.Request, grants *round[vote]) (driver.Grant, error) {
	votes := grants.votes(itself)
	until, token := b.lease(votes), b.token(votes)
	if err := b.writeBack(ctx, key, r, grants, token); err != nil {
		b.giveBack(ctx, key, r.ID, b.members)
		return driver.Grant{}, err
	}
	b.tokens.saw(token)
	if c, _, now := b.holds.get(holdKey{key, r.ID}); now {
		token = c.token // a repeated attempt
	}
	b.holds.put(holdKey{key, r.ID}, certain{token, sure(grants.began, until)})
	return driver.Grant{Token: token, TTL: until.Sub(grants.began), Since: grants.began}, nil
}

// writeBack raises the token of the hold to token at every member that granted, unless a majority has it, and succeeds when
// one has it.
func (b *Backend) writeBack(ctx context.Context, key string, r driver.Request, grants *round[vote], token int64) error {
	r.Floor = token
	var lower []*member
	have := 0
	for i, a := range grants.answers {
		switch {
		case a == nil || a.err != nil || !a.value.counts:
		case a.value.grant.Token == token:
			have++
		default:
			lower = append(lower, b.members[i])
		}
	}
	if have >= b.need {
		return nil
	}
	written := ask(ctx, b, lower, holdKey{key, r.ID}, func(ctx context.Context, _ *member, s driver.Backend) (vote, error) {
		g, err := s.Renew(ctx, key, r)
		return vote{grant: g, counts: g.Token >= token}, err
	})
	stored := func() int { return have + b.count(written, driver.ErrNotHeld).yes }
	err := written.gather(ctx, func() bool { return stored() >= b.need || stored()+written.missing < b.need })
	if err == nil && stored() < b.need {
		err = b.unanswered("the token was stored", written.errs(isNothing))
		if b.count(written, driver.ErrNotHeld).no > 0 {
			err = fmt.Errorf("%w: %w", driver.ErrNotHeld, err)
		}
	}
	return err
}

func isNothing(error) bool { return false }

// refused says why the last try of a call has no majority.
func (b *Backend) refused(ctx context.Context, made []try, t tally) error {
	if t.no > 0 && t.yes+t.no >= b.need {
		slices.Sort(t.left)
		return &driver.LockedError{Remaining: t.left[min(b.need, len(t.left))-1], Holder: t.holder}
	}
	grants := made[len(made)-1].grants
	_ = grants.gather(ctx, func() bool { return true }) // what has come meanwhile: it never waits
	failed := grants.errs(isLocked)
	var young, doubted []string
	for i, a := range grants.answers {
		switch {
		case a == nil || a.err != nil || a.value.counts:
		case a.value.from.IsZero():
			doubted = append(doubted, b.members[i].name)
		default:
			young = append(young, b.members[i].name)
		}
	}
	if len(young) > 0 {
		failed = append(failed, fmt.Errorf("%s: grants do not count for a minute after a start or the loss of keys", strings.Join(young, "; ")))
	}
	if len(doubted) > 0 {
		failed = append(failed, fmt.Errorf("%s: grants do not count while a release of this lock may be on its way", strings.Join(doubted, "; ")))
	}
	err := b.unanswered("granted", failed)
	if !slices.ContainsFunc(made, func(y try) bool { return !y.isClean(ctx) }) {
		err = driver.NotSent(err)
	}
	if at := b.serves(grants); !at.IsZero() {
		err = &driver.NotYetError{After: max(time.Until(at), 0).Truncate(time.Millisecond) + time.Millisecond, Err: err}
	}
	return err
}

func isLocked(err error) bool { return errors.Is(err, driver.ErrLocked) }

// Unlock implements driver.Backend.
func (b *Backend) Unlock(ctx context.Context, key, id string) error {
	return b.UnlockAfter(ctx, key, id, 0)
}

// UnlockAfter implements driver.Backend.
func (b *Backend) UnlockAfter(ctx context.Context, key, id string, d time.Duration) error {
	b.holds.drop(holdKey{key, id})
	return b.change(ctx, key, id, "released", func(ctx context.Context, s driver.Backend) error {
		if d <= 0 {
			return s.Unlock(ctx, key, id)
		}
		return s.UnlockAfter(ctx, key, id, d)
	})
}

// change ends the hold of id at a majority, in one way or another. ErrNotHeld is the answer of a majority, too.
func (b *Backend) change(ctx context.Context, key, id, what string, do func(context.Context, driver.Backend) error) error {
	if err := b.ready(ctx, key); err != nil {
		return err
	}
	r := end(ctx, b, b.members, holdKey{key, id}, func(ctx context.Context, _ *member, s driver.Backend) (vote, error) {
		return vote{counts: true}, do(ctx, s)
	})
	count := func() tally { return b.count(r, driver.ErrNotHeld) }
	if err := r.gather(ctx, func() bool { t := count(); return max(t.yes, t.no) >= b.need }); err != nil {
		return err
	}
	switch t := count(); {
	case t.yes >= b.need:
		return nil
	case t.no >= b.need:
		return driver.ErrNotHeld
	}
	return b.unanswered(what, r.errs(func(err error) bool { return errors.Is(err, driver.ErrNotHeld) }))
}
