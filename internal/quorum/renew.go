package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coordgo/coord/driver"
)

// Renew implements driver.Backend.
func (b *Backend) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	one := b.RenewAll(ctx, []driver.Hold{{Key: key, Request: r}})[0]
	return one.Grant, one.Err
}

// RenewAll implements driver.Backend. It asks each member once for all holds.
//
// A member that does not have a hold is asked to grant it again while the hold is certain: nobody else has a majority
// then, so that it is as good as a renewal, and the member need not have remembered anything. So a hold outlives the
// restart of one member after the other.
func (b *Backend) RenewAll(ctx context.Context, holds []driver.Hold) []driver.Renewal {
	out := make([]driver.Renewal, len(holds))
	var valid []driver.Hold
	var which []int
	for i, h := range holds {
		if out[i].Err = b.check(ctx, h.Key, h.Request); out[i].Err == nil {
			valid, which = append(valid, h), append(which, i)
		}
	}
	if len(valid) == 0 {
		return out
	}
	n := renewal{b: b, sent: time.Now(), holds: valid}
	n.ask(ctx)
	standings, heals := make([]standing, len(valid)), make([]*round[vote], len(valid))
	for k := range valid {
		standings[k] = n.of(k)
		if len(standings[k].yes) < b.need {
			heals[k] = n.heal(ctx, k, standings[k])
		}
	}
	for k, i := range which {
		out[i] = n.result(ctx, k, standings[k], heals[k])
	}
	b.start(func() { n.healRest(ctx, heals) })
	return out
}

// healRest waits for the members that have not answered yet, and heals what they have lost.
func (n *renewal) healRest(ctx context.Context, begun []*round[vote]) {
	bound := driver.NewBound(ctx, callBound)
	defer bound.Stop()
	_ = n.round.gather(bound, all)
	for k, h := range begun {
		s := n.of(k)
		if h != nil {
			healed := func(m *member) bool { return slices.Contains(h.members, m) }
			s.lost, s.lower = slices.DeleteFunc(s.lost, healed), slices.DeleteFunc(s.lower, healed)
		}
		n.heal(ctx, k, s)
	}
}

// renewal is one RenewAll.
type renewal struct {
	b     *Backend
	sent  time.Time
	holds []driver.Hold
	round *round[[]driver.Renewal]
	ended error // ctx ended before a majority had answered
}

func (n *renewal) ask(ctx context.Context) {
	n.round = ask(ctx, n.b, n.b.members, holdKey{}, func(ctx context.Context, m *member, s driver.Backend) ([]driver.Renewal, error) {
		return m.renewAll(ctx, s, &n.b.holds, n.holds), nil
	})
	n.ended = n.round.gather(ctx, func() bool {
		if len(n.b.members)-n.round.missing < n.b.need {
			return false
		}
		for k := range n.holds {
			if v := n.of(k); len(v.yes)+len(v.lower) < n.b.need && len(v.lost) < n.b.need {
				return false
			}
		}
		return true
	})
}

// errReleased is of a renewal at a member that may yet carry out a release of the hold.
var errReleased = errors.New("a release of this hold may be on its way")

// renewAll renews holds at one member. A renewal that was sent after a release, and overtook it, does not count.
func (m *member) renewAll(ctx context.Context, s driver.Backend, mine *holds, list []driver.Hold) []driver.Renewal {
	doubted := m.doubts.among(list, mine)
	out := renewAll(ctx, s, list)
	for _, i := range doubted {
		if i < len(out) && out[i].Err == nil {
			m.doubts.has(holdKey{list[i].Key, list[i].ID})
			out[i] = driver.Renewal{Err: fmt.Errorf("%s: %w", m, errReleased)}
		}
	}
	return out
}

// renewAll renews in one batch where the store can.
func renewAll(ctx context.Context, s driver.Backend, list []driver.Hold) []driver.Renewal {
	if len(list) > 1 {
		if out := s.RenewAll(ctx, list); out != nil {
			return out
		}
	}
	out := make([]driver.Renewal, len(list))
	for i, h := range list {
		out[i].Grant, out[i].Err = s.Renew(ctx, h.Key, h.Request)
	}
	return out
}

// standing is how a hold stands after a round of renewals.
type standing struct {
	yes    []vote
	lost   []*member // that do not have it
	lower  []*member // that have it, and a token below its own: they are not counted until that is raised
	failed []error
}

func (n *renewal) of(k int) (s standing) {
	for i, a := range n.round.answers {
		if a == nil {
			continue
		}
		m := n.b.members[i]
		err := a.err
		if err == nil {
			if k >= len(a.value) {
				continue
			}
			err = a.value[k].Err
		}
		switch {
		case err == nil:
			h := holdKey{n.holds[k].Key, n.holds[k].ID}
			g := a.value[k].Grant
			c, _, _ := n.b.holds.get(h)
			if g.Token < c.token {
				s.lower = append(s.lower, m)
			} else { // also of a member that has restarted: it has this hold
				s.yes = append(s.yes, vote{grant: g, until: endOf(g, n.sent), counts: true})
			}
		case errors.Is(err, driver.ErrNotHeld):
			s.lost = append(s.lost, m)
		default:
			s.failed = append(s.failed, err)
		}
	}
	return s
}

// heal begins to grant hold k again where it was lost, if the hold is certain. A hold that a majority does not have was
// revoked, or is over.
func (n *renewal) heal(ctx context.Context, k int, s standing) *round[vote] {
	h := n.holds[k]
	c, _, now := n.b.holds.get(holdKey{h.Key, h.ID})
	if !now || len(s.lost)+len(s.lower) == 0 || len(s.lost) >= n.b.need {
		return nil
	}
	return n.b.regain(ctx, slices.Concat(s.lost, s.lower), h, c)
}

// regain asks members that have lost a hold, or never had it, to grant it while it is certain.
func (b *Backend) regain(ctx context.Context, members []*member, h driver.Hold, c certain) *round[vote] {
	r := h.Request
	r.Floor = c.token
	sent := time.Now()
	return ask(ctx, b, members, holdKey{h.Key, h.ID}, func(ctx context.Context, m *member, s driver.Backend) (vote, error) {
		g, err := b.again(ctx, s, h.Key, r)
		if err != nil {
			return vote{}, err
		}
		m.runs.countFrom(g, b.longest) // takes in that it may have restarted
		if g.Token < c.token {
			_, err = s.Renew(ctx, h.Key, r)
		}
		counts := time.Now().Before(c.until) && !m.doubts.has(holdKey{h.Key, h.ID})
		return vote{grant: g, until: endOf(g, sent), counts: counts}, err
	})
}

// again grants r at a member again, while the hold is certain. Contenders that have the vote give it back.
func (b *Backend) again(ctx context.Context, s driver.Backend, key string, r driver.Request) (g driver.Grant, err error) {
	var contend backoff
	for {
		if _, _, now := b.holds.get(holdKey{key, r.ID}); !now {
			return driver.Grant{}, driver.ErrNotHeld
		}
		sent := time.Now()
		if g, err = s.TryLock(ctx, key, r); !isLocked(err) {
			return g, err
		}
		contend.begin(time.Since(sent))
		if !contend.wait(ctx, 0) {
			return driver.Grant{}, err
		}
	}
}

// result is what became of hold k, which stood so when heals began. Later it may stand otherwise: a member whose token was
// low counts by itself once the hold was dropped, and would count twice.
func (n *renewal) result(ctx context.Context, k int, s standing, heals *round[vote]) driver.Renewal {
	b, h := n.b, n.holds[k]
	ended := n.ended
	if heals != nil {
		err := heals.gather(ctx, func() bool { return len(s.yes)+len(heals.votes(itself)) >= b.need })
		s.yes = append(s.yes, heals.votes(itself)...)
		if ended == nil {
			ended = err
		}
	}
	name := holdKey{h.Key, h.ID}
	switch {
	case len(s.yes) >= b.need:
		return driver.Renewal{Grant: n.renewed(name, s.yes)}
	case len(s.lost) >= b.need:
		b.holds.drop(name)
		return driver.Renewal{Err: driver.ErrNotHeld}
	case ended != nil:
		return driver.Renewal{Err: ended}
	}
	return driver.Renewal{Err: b.unanswered("renewed", append(s.failed, n.round.errs(isNothing)...))}
}

// renewed is the grant of a renewal. The token is the hold's, whatever a member has that it was granted by later.
func (n *renewal) renewed(name holdKey, votes []vote) driver.Grant {
	until := n.b.lease(votes)
	c, known, _ := n.b.holds.get(name)
	if !known { // another client's
		c.token = n.b.token(votes)
	}
	n.b.holds.extend(name, sure(n.sent, until))
	return driver.Grant{Token: c.token, TTL: until.Sub(n.sent), Since: n.sent}
}
