package quorum

import (
	"context"
	"errors"
	"slices"

	"github.com/coordgo/coord/driver"
)

// try is an attempt that no majority has granted, and what was given back of it.
type try struct {
	grants *round[vote]
	given  *round[struct{}] // nil: nothing, because the hold is certain
}

// touched are the members that may have granted, now or to an earlier attempt.
func (b *Backend) touched(grants *round[vote]) (list []*member) {
	for i, a := range grants.answers {
		if a == nil || !isLocked(a.err) {
			list = append(list, b.members[i])
		}
	}
	return list
}

// giveBack ends what members may have of an attempt. It waits for those that answer at once; the others do it when they
// can, or by the end of the lease. An attempt that was repeated under a certain hold leaves that as it is.
func (b *Backend) giveBack(ctx context.Context, key, id string, members []*member) *round[struct{}] {
	if _, _, now := b.holds.get(holdKey{key, id}); now {
		return nil
	}
	r := end(ctx, b, members, holdKey{key, id}, func(ctx context.Context, _ *member, s driver.Backend) (struct{}, error) {
		return struct{}{}, s.Unlock(ctx, key, id)
	})
	r.wait(context.WithoutCancel(ctx), moment, all)
	return r
}

// isClean waits until the members that have granted have answered the release, and reports whether nothing of the try is left
// at a member, or comes to it later.
func (y try) isClean(ctx context.Context) bool {
	open := func(a *result[vote]) bool { return a == nil || a.err != nil && !driver.Definite(a.err) }
	if y.given == nil || slices.ContainsFunc(y.grants.answers, open) {
		return false
	}
	_ = y.given.gather(ctx, func() bool { return y.freed(func(a *result[struct{}]) bool { return a != nil }) })
	return y.freed(func(a *result[struct{}]) bool {
		return a != nil && (a.err == nil || errors.Is(a.err, driver.ErrNotHeld))
	})
}

// freed reports whether the answers to the release of all members that have granted are as they should be.
func (y try) freed(is func(*result[struct{}]) bool) bool {
	for i, a := range y.grants.answers {
		if a.err == nil && !is(y.given.answers[slices.Index(y.given.members, y.grants.members[i])]) {
			return false
		}
	}
	return true
}
