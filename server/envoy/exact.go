package envoy

import (
	"context"
	"errors"

	"github.com/coordgo/coord"
)

// takeAll decides by counting: exact. Parts without hits only check, and come first. The rules that can deny are one
// step, all or none, unless a check denies. Rules in shadow or quota mode stay out of it: they are asked one by one if the
// request is let in so far. If not, all that is left is only looked at. A request that is denied costs nothing.
func (d *decision) takeAll(ctx context.Context) error {
	var checks, step, others []*part
	for i := range d.parts {
		switch p := &d.parts[i]; {
		case p.rule == nil:
		case p.shadow || d.quota(p):
			others = append(others, p)
		case p.hits == 0:
			checks = append(checks, p)
		default:
			step = append(step, p)
		}
	}
	if err := d.takeEach(ctx, checks, true); err != nil {
		return err
	}
	denied := anyOver(checks)
	if denied {
		others = append(step, others...)
	} else if err := d.take(ctx, step); err != nil {
		return err
	}
	if err := d.takeEach(ctx, others, denied || anyOver(step)); err != nil {
		d.giveBack(ctx)
		return err
	}
	if d.quotasOver() {
		d.giveBack(ctx)
	}
	return nil
}

// takeEach asks for parts one by one, or looks whether each could be had.
func (d *decision) takeEach(ctx context.Context, parts []*part, look bool) error {
	for _, p := range parts {
		if err := d.takeOne(ctx, p, look || p.hits == 0); err != nil {
			return err
		}
	}
	return nil
}

// quota reports whether a part only denies together with all others of that mode.
func (d *decision) quota(p *part) bool { return d.service.cfg.Quota || p.rule.quota }

func anyOver(parts []*part) bool {
	for _, p := range parts {
		if p.over {
			return true
		}
	}
	return false
}

// quotasOver reports whether there are rules in quota mode, and all deny.
func (d *decision) quotasOver() bool {
	quotas := 0
	for i := range d.parts {
		p := &d.parts[i]
		if p.rule == nil || !d.quota(p) {
			continue
		}
		if !p.over || p.shadow {
			return false
		}
		quotas++
	}
	return quotas > 0
}

// bound is the limit of a part. It is false if the part can never be let in.
func (p *part) bound() (limit coord.Limit, possible bool, err error) {
	if p.current.RequestsPerUnit == 0 {
		return limit, false, nil
	}
	limit, err = p.limit(p.current.RequestsPerUnit, p.per).Normal()
	if err != nil {
		return limit, false, invalid("limit: %v", err)
	}
	return limit, p.hits <= uint64(limit.Max()), nil
}

// take asks for all of parts in one step.
func (d *decision) take(ctx context.Context, parts []*part) error {
	demands := make([]coord.Demand, 0, len(parts))
	of := make([]int, len(parts)) // the demand of each part
	possible := true
	for i, p := range parts {
		limit, ok, err := p.bound()
		if err != nil {
			return err
		}
		if !ok {
			p.over, possible = true, false
			continue
		}
		if demands, of[i], ok = join(demands, coord.Demand{Key: p.key, Limit: limit, N: int(p.hits)}); !ok {
			p.over, possible = true, false
		}
	}
	if !possible {
		for _, p := range parts {
			if p.over {
				d.service.stats.over(p)
			}
		}
		return nil
	}
	results, err := d.service.allow(ctx, demands)
	for i, p := range parts {
		var r coord.Result
		if err == nil {
			r = results[of[i]]
		}
		if err := d.took(p, demands[of[i]].Limit, r, err); err != nil {
			return err
		}
	}
	return nil
}

// join adds a demand to one on the same account, under the lower of their limits, or to the list. It is false if no
// request could ever take both.
func join(demands []coord.Demand, next coord.Demand) (_ []coord.Demand, i int, ok bool) {
	for i := range demands {
		d := &demands[i]
		if d.Key != next.Key || !d.Limit.Shares(next.Limit) {
			continue
		}
		if next.Limit.Max() < d.Limit.Max() {
			d.Limit = next.Limit
		}
		d.N += next.N
		return demands, i, d.N <= d.Limit.Max()
	}
	return append(demands, next), len(demands), true
}

// allow takes all demands, or none. One alone shares its call with those of other requests.
func (s *Service) allow(ctx context.Context, demands []coord.Demand) ([]coord.Result, error) {
	switch len(demands) {
	case 0:
		return nil, nil
	case 1:
		r, err := s.client.AllowN(ctx, demands[0].Key, demands[0].Limit, demands[0].N)
		return []coord.Result{r}, err
	}
	return s.client.AllowAll(ctx, demands...)
}

// took writes down what the store said of a part.
func (d *decision) took(p *part, limit coord.Limit, r coord.Result, err error) error {
	switch {
	case errors.Is(err, coord.ErrExceedsBurst): // an override in the store has lowered the limit
		p.over = true
		d.service.stats.over(p)
		return nil
	case err == nil:
		err = r.Degraded
	}
	if err != nil {
		return d.undecided(p, err)
	}
	p.remaining, p.reset = uint32(max(r.Remaining, 0)), r.ResetAfter
	if p.over = !r.Allowed && r.RetryAfter > 0; p.over {
		p.remaining, p.reset = 0, r.RetryAfter
		d.service.stats.over(p)
		return nil
	}
	if r.Allowed {
		p.taken = p.hits
	}
	after := uint64(max(limit.Max()-max(r.Remaining, 0), 0))
	d.service.stats.counted(p, uint64(limit.Max()), after-min(p.hits, after), after)
	return nil
}

// takeOne asks for a part alone, or looks whether it could be had.
func (d *decision) takeOne(ctx context.Context, p *part, look bool) error {
	limit, possible, err := p.bound()
	switch {
	case err != nil:
		return err
	case !possible:
		p.over = true
		d.service.stats.over(p)
		return nil
	case !look:
		r, err := d.service.client.AllowN(ctx, p.key, limit, int(p.hits))
		return d.took(p, limit, r, err)
	}
	r, err := d.service.client.Peek(ctx, p.key, limit)
	r.Allowed = false // nothing was taken
	if uint64(max(r.Remaining, 0)) < max(p.hits, 1) {
		r.RetryAfter = max(r.RetryAfter, 1)
	} else {
		r.RetryAfter = 0
	}
	return d.took(p, limit, r, err)
}

// giveBack returns what was taken, also for a caller who has gone. What the store does not take back counts as spent.
func (d *decision) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
	defer cancel()
	for i := range d.parts {
		p := &d.parts[i]
		if p.taken == 0 {
			continue
		}
		if limit, _, err := p.bound(); err == nil {
			_ = d.service.client.Settle(ctx, p.key, limit, int(p.taken), 0)
		}
		p.taken = 0
	}
}
