package quorum

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coordgo/coord/driver"
)

// vote is a grant of a member. One that does not count is of a member that may have forgotten the lease of another.
type vote struct {
	grant  driver.Grant
	until  time.Time // when the lease ends, at the earliest
	counts bool
	from   time.Time // of one that does not count: from when on such a grant does; zero: that is not known
}

// newVote judges what m has granted to h by a request that was sent then.
func (b *Backend) newVote(m *member, h holdKey, g driver.Grant, sent time.Time) vote {
	v := vote{grant: g, until: endOf(g, sent), from: m.runs.countFrom(g, b.longest)}
	if v.counts = !time.Now().Before(v.from); m.doubts.has(h) {
		v.counts, v.from = false, time.Time{}
	}
	return v
}

// endOf is when a lease ends, at the earliest, that was granted to a request which was sent then.
func endOf(g driver.Grant, sent time.Time) time.Time {
	since := sent
	if !g.Since.IsZero() && g.Since.Before(sent) {
		since = g.Since
	}
	return since.Add(g.TTL)
}

// tally counts the answers of a round.
type tally struct {
	yes, idle, no, failed, missing int // idle: granted by a member that does not count
	left                           []time.Duration
	holder                         string // the one that a majority names
}

// count counts votes; no is the error by which a member says that it does not have, or give, the hold.
func (b *Backend) count(r *round[vote], no error) tally {
	t, named := tally{missing: r.missing}, map[string]int{}
	for _, a := range r.answers {
		switch {
		case a == nil:
		case a.err == nil && a.value.counts:
			t.yes++
			t.left = append(t.left, 0)
		case a.err == nil:
			t.idle++
		case errors.Is(a.err, no):
			t.no++
			locked := new(driver.LockedError)
			errors.As(a.err, &locked) // else nothing is known of the rest
			t.left = append(t.left, locked.Remaining)
			if named[locked.Holder]++; named[locked.Holder] >= b.need {
				t.holder = locked.Holder
			}
		default:
			t.failed++
		}
	}
	return t
}

// votes are the grants that count.
func (r *round[T]) votes(of func(T) vote) (list []vote) {
	for _, a := range r.answers {
		if a != nil && a.err == nil {
			if v := of(a.value); v.counts {
				list = append(list, v)
			}
		}
	}
	return list
}

func itself(v vote) vote { return v }

// lease is when the majority that lasts longest ends: the end of its shortest lease.
func (b *Backend) lease(votes []vote) time.Time {
	slices.SortFunc(votes, func(x, y vote) int { return y.until.Compare(x.until) })
	return votes[min(b.need, len(votes))-1].until
}

// stored is the token that a majority has: a member that granted late may have a greater one. 0 is that none has.
func (b *Backend) stored(votes []vote) int64 {
	have := map[int64]int{}
	for _, v := range votes {
		token := v.grant.Token
		if have[token]++; have[token] >= b.need {
			return token
		}
	}
	return 0
}

// token is the one of a hold that has votes.
func (b *Backend) token(votes []vote) (token int64) {
	if token = b.stored(votes); token != 0 {
		return token
	}
	for _, v := range votes {
		token = max(token, v.grant.Token)
	}
	return token
}

// serves is when a majority will serve, if nothing changes but time; zero: that is not known.
func (b *Backend) serves(grants *round[vote]) time.Time {
	var times []time.Time
	for _, a := range grants.answers {
		switch {
		case a == nil:
		case isLocked(a.err), a.err == nil && a.value.counts:
			times = append(times, time.Now())
		case a.err == nil && !a.value.from.IsZero():
			times = append(times, a.value.from)
		}
	}
	if len(times) < b.need {
		return time.Time{}
	}
	slices.SortFunc(times, time.Time.Compare)
	return times[b.need-1]
}

// unanswered is the error of a call for which too few members answered. It is definite only if so many refuse the call as
// it is.
func (b *Backend) unanswered(what string, failed []error) error {
	for _, kind := range []error{driver.ErrInvalid, driver.ErrUnsupported, driver.ErrCorrupt, driver.ErrClosed} {
		same := slices.DeleteFunc(slices.Clone(failed), func(err error) bool { return !errors.Is(err, kind) })
		if len(same) > len(b.members)-b.need {
			return same[0]
		}
	}
	return fmt.Errorf("%s by fewer than %d of %d members: %v", what, b.need, len(b.members), errors.Join(failed...))
}
