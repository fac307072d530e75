package quorum

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/coordgo/coord/driver"
)

// maxTries is how often the contender that the first member prefers asks the others, with pauses that grow, until those
// who have come second there have given back what they got.
const (
	maxTries   = 10
	firstPause = 200 * time.Microsecond
	maxPause   = 10 * time.Millisecond
)

// TryLock implements driver.Locker.
func (b *Backend) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if err := b.check(ctx, key, r); err != nil {
		return driver.Grant{}, err
	}
	if b.polls.oneIsEnough(key) {
		if err := b.askOne(ctx, key, r); err != nil {
			return driver.Grant{}, err
		}
	}
	pause := firstPause
	for try := 1; ; try++ {
		grants, err := b.attempt(ctx, key, r)
		if err != nil {
			return driver.Grant{}, err
		}
		if b.count(grants, driver.ErrLocked).yes < b.need {
			awaitFirst(ctx, grants) // it decides who goes on
		}
		t := b.count(grants, driver.ErrLocked)
		switch {
		case t.yes >= b.need:
			b.polls.note(key, false)
			g, err := b.hold(ctx, key, r, grants)
			if !errors.Is(err, driver.ErrNotHeld) {
				return g, err
			}
			if try == maxTries { // the lease has ended on the way each time
				return driver.Grant{}, &driver.LockedError{}
			}
			continue
		case t.yes+t.no >= b.need && t.no > 0 && b.comesFirst(grants) && try < maxTries && sleep(ctx, pause/2+rand.N(pause)):
			pause = min(2*pause, maxPause)
			continue
		}
		return driver.Grant{}, b.refuse(ctx, key, r, grants, t)
	}
}

// attempt asks every member for the hold.
func (b *Backend) attempt(ctx context.Context, key string, r driver.Request) (*round[vote], error) {
	r.Floor = b.tokens.next()
	sent := time.Now()
	grants := ask(ctx, b, b.members, holdKey{key, r.ID}, func(ctx context.Context, m *member) (vote, error) {
		g, err := m.TryLock(ctx, key, r)
		if err != nil {
			return vote{}, err
		}
		return b.newVote(m, holdKey{key, r.ID}, g, sent), nil
	})
	grants.began = sent
	return grants, grants.gather(ctx, func() bool {
		return b.decided(b.count(grants, driver.ErrLocked))
	})
}

// decided reports whether t has the votes for a hold, or will not have them and says why not: because a majority serves,
// and refuses, or because none does.
func (b *Backend) decided(t tally) bool {
	serve := t.yes + t.no
	return t.yes >= b.need || t.yes+t.missing < b.need && (serve >= b.need || serve+t.missing < b.need)
}

// comesFirst reports whether the first member that has answered has granted. Members are asked in one order by
// everyone, so of those who split the votes one goes on, as a rule, and the others give back.
func (b *Backend) comesFirst(grants *round[vote]) bool {
	for _, a := range grants.answers {
		if a != nil && (a.err == nil || errors.Is(a.err, driver.ErrLocked)) {
			return a.err == nil
		}
	}
	return false
}

// hold makes a hold of the grants of a majority. Its token is the greatest, once a majority has stored that: so a later
// majority has a member that counts on from it.
func (b *Backend) hold(ctx context.Context, key string, r driver.Request, grants *round[vote]) (driver.Grant, error) {
	votes := grants.votes(itself)
	until, token := b.lease(votes), greatest(votes)
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
	written := ask(ctx, b, lower, holdKey{key, r.ID}, func(ctx context.Context, m *member) (vote, error) {
		g, err := m.Renew(ctx, key, r)
		return vote{grant: g, counts: g.Token >= token}, err
	})
	stored := func() int { return have + b.count(written, driver.ErrNotHeld).yes }
	err := written.gather(ctx, func() bool { return stored() >= b.need || stored()+written.missing < b.need })
	if err == nil && stored() < b.need {
		err = b.unanswered("the token was stored", written.errs(isNothing), false)
		if b.count(written, driver.ErrNotHeld).no > 0 {
			err = fmt.Errorf("%w: %w", driver.ErrNotHeld, err)
		}
	}
	return err
}

func isNothing(error) bool { return false }

// refuse gives back what a minority has granted, and says why there is no majority.
func (b *Backend) refuse(ctx context.Context, key string, r driver.Request, grants *round[vote], t tally) error {
	isLocked := func(err error) bool { return errors.Is(err, driver.ErrLocked) }
	var touched []*member
	for i, a := range grants.answers {
		if a == nil || !isLocked(a.err) { // it may have granted to an earlier attempt
			touched = append(touched, b.members[i])
		}
	}
	if len(touched) > 0 {
		b.giveBack(ctx, key, r.ID, touched)
	}
	if t.no > 0 && t.yes+t.no >= b.need {
		b.polls.note(key, true)
		slices.Sort(t.left)
		return &driver.LockedError{Remaining: t.left[min(b.need, len(t.left))-1]}
	}
	failed := grants.errs(isLocked)
	for i, a := range grants.answers {
		if a != nil && a.err == nil && !a.value.counts {
			failed = append(failed, errors.New(b.members[i].name+": it has no vote: it may have forgotten leases in a restart, or may yet carry out a release of this lock"))
		}
	}
	return b.unanswered("granted", failed, len(touched) == 0)
}

// giveBack ends what members may have of an attempt. It waits for those that answer at once; the others do it when they
// can, or by the end of the lease. An attempt that was repeated under a certain hold leaves that as it is.
func (b *Backend) giveBack(ctx context.Context, key, id string, members []*member) {
	if _, _, now := b.holds.get(holdKey{key, id}); now {
		return
	}
	r := ask(ctx, b, members, holdKey{key, id}, func(ctx context.Context, m *member) (struct{}, error) {
		return struct{}{}, m.release(holdKey{key, id}, func() error { return m.Unlock(ctx, key, id) })
	})
	r.wait(ctx, giveBackFor)
}

// giveBackFor is how long a refused attempt waits for what it gives back.
const giveBackFor = 5 * time.Millisecond

// Unlock implements driver.Locker.
func (b *Backend) Unlock(ctx context.Context, key, id string) error {
	return b.UnlockAfter(ctx, key, id, 0)
}

// UnlockAfter implements driver.DelayedUnlocker.
func (b *Backend) UnlockAfter(ctx context.Context, key, id string, d time.Duration) error {
	b.holds.drop(holdKey{key, id})
	return b.change(ctx, key, id, "released", func(ctx context.Context, m *member) error {
		if d <= 0 {
			return m.Unlock(ctx, key, id)
		}
		return m.UnlockAfter(ctx, key, id, d)
	})
}

// change ends the hold of id at a majority, in one way or another. ErrNotHeld is the answer of a majority, too.
func (b *Backend) change(ctx context.Context, key, id, what string, do func(context.Context, *member) error) error {
	if err := b.ready(ctx, key); err != nil {
		return err
	}
	r := ask(ctx, b, b.members, holdKey{key, id}, func(ctx context.Context, m *member) (vote, error) {
		return vote{counts: true}, m.release(holdKey{key, id}, func() error { return do(ctx, m) })
	})
	count := func() tally { return b.count(r, driver.ErrNotHeld) }
	if err := r.gather(ctx, func() bool { t := count(); return max(t.yes, t.no) >= b.need }); err != nil {
		return err
	}
	awaitFirst(ctx, r) // whoever waits for the key asks it alone
	switch t := count(); {
	case t.yes >= b.need:
		return nil
	case t.no >= b.need:
		return driver.ErrNotHeld
	}
	return b.unanswered(what, r.errs(func(err error) bool { return errors.Is(err, driver.ErrNotHeld) }), false)
}

// sleep reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
