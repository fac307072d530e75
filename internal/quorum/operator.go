package quorum

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/doctor"
)

// Inspect implements driver.Backend: the holder is the one that a majority names.
func (b *Backend) Inspect(ctx context.Context, key string) (driver.Holder, error) {
	if err := b.ready(ctx, key); err != nil {
		return driver.Holder{}, err
	}
	sent := time.Now()
	r := ask(ctx, b, b.members, holdKey{}, func(ctx context.Context, _ *member, s driver.Backend) (driver.Holder, error) {
		return s.Inspect(ctx, key)
	})
	isFree := func(err error) bool { return errors.Is(err, driver.ErrNotHeld) }
	var most driver.Holder
	votes, free := map[string][]vote{}, 0
	count := func() (n int) {
		clear(votes)
		free = 0
		for _, a := range r.answers {
			switch {
			case a == nil:
			case a.err == nil:
				id := a.value.ID
				votes[id] = append(votes[id], vote{grant: driver.Grant{Token: int64(a.value.Token)}, until: sent.Add(a.value.TTL), counts: true})
				if len(votes[id]) > n {
					n, most = len(votes[id]), a.value
				}
			case isFree(a.err):
				free++
			}
		}
		return n
	}
	if err := r.gather(ctx, func() bool { return max(count(), free) >= b.need }); err != nil {
		return driver.Holder{}, err
	}
	if n := count(); n >= b.need && n == len(b.members)-r.missing && b.stored(votes[most.ID]) == 0 {
		r.rest(ctx, all) // the ones that are left tell which token is the hold's
	}
	failed := r.errs(isFree)
	switch n := count(); {
	case n >= b.need:
		v := votes[most.ID]
		most.TTL, most.Token = b.lease(v).Sub(sent), driver.Token(b.token(v))
		return most, nil
	case n+len(failed) < b.need:
		return driver.Holder{}, driver.ErrNotHeld
	}
	return driver.Holder{}, b.unanswered("answered", failed)
}

// Break implements driver.Backend.
func (b *Backend) Break(ctx context.Context, key, id string) error {
	return b.change(ctx, key, id, "broken", func(ctx context.Context, s driver.Backend) error { return s.Break(ctx, key, id) })
}

// BreakNow implements driver.Backend.
func (b *Backend) BreakNow(ctx context.Context, key, id string) error {
	b.holds.drop(holdKey{key, id})
	return b.change(ctx, key, id, "broken", func(ctx context.Context, s driver.Backend) error { return s.BreakNow(ctx, key, id) })
}

// listMoment is how long List waits at least for the members that a majority does not need: what one alone has may be of
// a release on its way.
const listMoment = 100 * time.Millisecond

// List implements driver.Backend. It reads the lists of all members to their ends, and gives what a majority may hold.
func (b *Backend) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if !b.info.Claims.Has(driver.List) {
			yield("", driver.ErrUnsupported)
			return
		}
		if err := b.ready(ctx, "list"); err != nil {
			yield("", err)
			return
		}
		r, err := b.lists(ctx, prefix)
		if err != nil {
			yield("", err)
			return
		}
		answered, keys := r.succeeded(), map[string]int{}
		for _, a := range r.answers {
			if a != nil && a.err == nil {
				for key := range a.value {
					keys[key]++
				}
			}
		}
		if answered < b.need {
			yield("", b.unanswered("listed", r.errs(isNothing)))
			return
		}
		for key, n := range keys {
			if n+len(b.members)-answered >= b.need && !yield(key, nil) {
				return
			}
		}
	}
}

// lists reads the lists of a majority, as long as ctx allows, and for a moment those of the others.
func (b *Backend) lists(ctx context.Context, prefix string) (*round[map[string]bool], error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := ask(ctx, b, b.members, holdKey{}, func(_ context.Context, _ *member, s driver.Backend) (map[string]bool, error) { // not within callBound: it can be long
		keys := map[string]bool{}
		for key, err := range s.List(ctx, prefix) {
			if err != nil && ctx.Err() != nil {
				err = fmt.Errorf("%w: %w", errUnwanted, err)
			}
			if err != nil {
				return nil, err
			}
			keys[key] = true
		}
		return keys, nil
	})
	if err := r.gather(ctx, func() bool { return r.succeeded() >= b.need }); err != nil {
		return nil, err
	}
	r.wait(ctx, max(time.Since(r.began), listMoment), all)
	return r, nil
}

// Ping implements driver.Backend: it wants a majority.
func (b *Backend) Ping(ctx context.Context) error {
	if err := b.ready(ctx, "ping"); err != nil {
		return err
	}
	r := ask(ctx, b, b.members, holdKey{}, func(ctx context.Context, _ *member, s driver.Backend) (struct{}, error) {
		return struct{}{}, s.Ping(ctx)
	})
	err := r.gather(ctx, func() bool { return r.succeeded() >= b.need })
	if err == nil && r.succeeded() < b.need {
		err = b.unanswered("answered", r.errs(isNothing))
	}
	return err
}

// Describe implements driver.Backend.
func (b *Backend) Describe(context.Context) (map[string]string, error) {
	names := make([]string, len(b.members))
	for i, m := range b.members {
		names[i] = strings.TrimSpace(m.Info().Name + " " + m.Info().Server)
	}
	return map[string]string{"topology": fmt.Sprintf("quorum of %d: %s", len(names), strings.Join(names, ", "))}, nil
}

// Check implements driver.Backend: what each member that has something to say finds, under its name.
func (b *Backend) Check(ctx context.Context) ([]driver.Finding, error) {
	var r doctor.Report
	var failed []error
	for _, m := range b.members {
		found, err := m.check(ctx)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", m, err))
		}
		r.Check(m.name, doctor.Fail(err != nil, "it does not answer", "start it: as long as a majority serves, locks do"))
		for _, f := range found {
			f.Name = m.name + ": " + f.Name
			r.Findings = append(r.Findings, f)
		}
	}
	if len(failed) > len(b.members)-b.need {
		return r.Findings, errors.Join(failed...)
	}
	return r.Findings, nil
}

// check is what m finds by itself; nothing if it does not look.
func (m *member) check(ctx context.Context) ([]driver.Finding, error) {
	s, err := m.open(ctx)
	if err != nil {
		return nil, err
	}
	return s.Check(ctx)
}
