package rules

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/coordgo/coord"
)

// Chain is an ordered list of rules. It never changes, and is safe for concurrent use.
type Chain struct{ links []link }

type link struct {
	Rule
	path pattern
}

// New makes a chain. It has at most [coord.MaxDemands] limits in all; names are unique, and
// limits of one name are the same everywhere.
func New(list ...Rule) (*Chain, error) {
	c := &Chain{links: make([]link, 0, len(list))}
	names, shared, total := make(map[string]bool), make(map[string]Limit), 0
	for _, r := range list {
		if err := r.check(); err != nil {
			return nil, fmt.Errorf("rule %q: %w", r.Name, err)
		}
		if names[r.Name] {
			return nil, fmt.Errorf("rule %q: %w: the name stands twice", r.Name, coord.ErrInvalid)
		}
		names[r.Name] = true
		for _, l := range r.Limits {
			if o, ok := shared[l.Name]; ok && l.Name != "" && o != l {
				return nil, fmt.Errorf("rule %q: %w: limit %q is %v here and %v before", r.Name, coord.ErrInvalid, l.Name, l.Limit, o.Limit)
			}
			shared[l.Name] = l
		}
		if total += len(r.Limits); total > coord.MaxDemands {
			return nil, fmt.Errorf("rule %q: %w: more than %d limits in all", r.Name, coord.ErrInvalid, coord.MaxDemands)
		}
		p, _ := parsePattern(r.Match.Path) // it was checked
		c.links = append(c.links, link{r.clone(), p})
	}
	return c, c.numbered()
}

// numbered refuses names that clients could not tell apart: limits of one name are numbered for them, as a, a-2, a-3.
func (c *Chain) numbered() error {
	count := make(map[string]int)
	for i := range c.links {
		for _, l := range c.links[i].Limits {
			count[(&Bound{Rule: c.links[i].Name, Limit: l}).Name()]++
		}
	}
	for name, n := range count {
		for i := 2; i <= n; i++ {
			if taken := name + "-" + strconv.Itoa(i); count[taken] > 0 {
				return fmt.Errorf("rule %q: %w: clients see %d limits %q by this name too: choose another", taken, coord.ErrInvalid, n, name)
			}
		}
	}
	return nil
}

// Rules lists the rules in order.
func (c *Chain) Rules() []Rule {
	list := make([]Rule, 0, len(c.links))
	for _, l := range c.links {
		list = append(list, l.clone())
	}
	return list
}

// Bound is one limit that a request counts against, and what came of it.
type Bound struct {
	Rule   string
	Limit  Limit
	Demand coord.Demand // as it is asked of the store
	Result coord.Result
	// FailurePolicy of the rule, or the strictest of those that share the account; nil: that of the client.
	FailurePolicy *coord.FailurePolicy
}

// Name is what to call the limit before clients: its own name, or the rule's.
func (b *Bound) Name() string {
	if b.Limit.Name != "" {
		return b.Limit.Name
	}
	return b.Rule
}

// Bounds lists what r counts against, in the order of the rules, each account once. Rules in shadow mode are left out.
func (c *Chain) Bounds(r *Request) []Bound {
	list, _, _ := c.bounds(r) // a function that is missing has no value
	return list
}

// bounds is Bounds, with what r counts against in shadow mode, and an error if a function is missing: without its value,
// all requests would share one account.
func (c *Chain) bounds(r *Request) (list []Bound, shadow []Shadow, err error) {
	paths := readings(r.Path)
	for i := range c.links {
		l := &c.links[i]
		if !l.Match.limits(r, &l.path, paths) {
			continue
		}
		v := view{Request: r, rule: l, paths: paths}
		if l.Shadow {
			s := Shadow{Rule: l.Name}
			s.Bounds, s.Err = v.bounds(nil)
			shadow = append(shadow, s)
			continue
		}
		var missing error
		if list, missing = v.bounds(list); err == nil {
			err = missing
		}
		if l.Final && l.Match.ends(r, &l.path, paths) {
			break
		}
	}
	return list, shadow, err
}

// view is a request as a rule sees it that matches.
type view struct {
	*Request
	rule  *link
	paths []reading // of its path
	// variable gives the variables of the path, where no path is known.
	variable func(name string) string
}

// bounds adds those of the rule.
func (v *view) bounds(list []Bound) ([]Bound, error) {
	account, missing := v.rule.Subject.account(v)
	n := v.rule.permits(v.Request)
	for _, limit := range v.rule.Limits {
		list = add(list, v.rule, limit, account, n)
	}
	if missing != "" {
		return list, fmt.Errorf("rule %q: %w: %s", v.rule.Name, coord.ErrInvalid, missing)
	}
	return list, nil
}

// pathValue is what a variable of the rule's pattern stands for. It is "" if servers may read different values, so that
// nobody has more accounts by another spelling.
func (v *view) pathValue(name string) (value string) {
	if v.variable != nil {
		return v.variable(name)
	}
	found := false
	for _, r := range v.paths {
		got, ok := v.rule.path.match(r, v.rule.Match.ExactSlash, name)
		switch {
		case !ok:
		case found && got != value:
			return ""
		default:
			value, found = got, true
		}
	}
	return value
}

// permits is how many r takes from each limit of the rule.
func (r *Rule) permits(q *Request) int {
	n, cost := max(q.N, 1), max(r.Cost, 1)
	if n > math.MaxInt/cost {
		return math.MaxInt // above what any limit grants
	}
	return n * cost
}

// scope is what the accounts of a limit are apart from others by, as parts of a key.
func (r *Rule) scope(limit Limit) []string {
	switch {
	case r.Shadow:
		return []string{"shadow", r.Name, limit.Name}
	case limit.Name != "":
		return []string{"limit", limit.Name}
	}
	return []string{"rule", r.Name}
}

func add(list []Bound, l *link, limit Limit, account []string, n int) []Bound {
	d := coord.Demand{Key: coord.Key(append(l.scope(limit), account...)...), Limit: limit.Limit, N: n}
	for i := range list {
		if b := &list[i].Demand; b.Key == d.Key && b.Limit == d.Limit {
			b.N = max(b.N, n)
			list[i].FailurePolicy = stricter(list[i].FailurePolicy, l.FailurePolicy)
			return list
		}
	}
	return append(list, Bound{Rule: l.Name, Limit: limit, Demand: d, FailurePolicy: l.FailurePolicy})
}

// Limiter is what a chain asks; [coord.Client] is one.
type Limiter interface {
	AllowN(ctx context.Context, key string, limit coord.Limit, n int) (coord.Result, error)
	AllowAll(ctx context.Context, demands ...coord.Demand) ([]coord.Result, error)
}

// Decision is what came of a request.
type Decision struct {
	// Allowed: every limit admitted the request, or none applied.
	Allowed bool
	// Bounds are the limits that applied, in order, each with its result.
	Bounds []Bound
	// Shadow is what rules in shadow mode have decided, in order, if the request was allowed.
	Shadow []Shadow
}

// Allow takes what r counts against: all, or nothing. A request that no rule matches is
// allowed. Several limits need a store that claims driver.AtomicMulti, or a client
// with coord.WithBestEffort; one limit works on every store.
func (c *Chain) Allow(ctx context.Context, limiter Limiter, r *Request) (Decision, error) {
	bounds, shadow, err := c.bounds(r)
	if err != nil {
		return Decision{}, err
	}
	d, err := take(ctx, limiter, bounds)
	if err != nil || !d.Allowed {
		return d, err
	}
	for i := range shadow {
		shadow[i].decide(ctx, limiter)
	}
	d.Shadow = shadow
	return d, nil
}

// take asks for all bounds in one call, and has the failure policies decide where the store does not.
func take(ctx context.Context, limiter Limiter, bounds []Bound) (Decision, error) {
	d := Decision{Allowed: true, Bounds: bounds}
	d, err := Apply(ctx, d, d.ask(ctx, limiter))
	if err != nil {
		return Decision{}, err
	}
	return d, nil
}

// ask has the limiter decide.
func (d *Decision) ask(ctx context.Context, limiter Limiter) (err error) {
	switch len(d.Bounds) {
	case 0:
		return nil
	case 1:
		b := &d.Bounds[0]
		b.Result, err = limiter.AllowN(ctx, b.Demand.Key, b.Demand.Limit, b.Demand.N)
		d.Allowed = b.Result.Allowed
		return err
	}
	demands := make([]coord.Demand, len(d.Bounds))
	for i, b := range d.Bounds {
		demands[i] = b.Demand
	}
	results, err := limiter.AllowAll(ctx, demands...)
	for i := range results {
		d.Bounds[i].Result = results[i]
		d.Allowed = d.Allowed && results[i].Allowed
	}
	return err
}

// RetryAfter is when a request that was denied can succeed if nobody else asks.
func (d *Decision) RetryAfter() time.Duration {
	var after time.Duration
	for _, b := range d.Bounds {
		after = max(after, b.Result.RetryAfter)
	}
	return after
}

// Tightest is the bound that matters most to the caller: of a denial the one that keeps it
// waiting longest, otherwise the one with the smallest part of its permits left. nil if
// none applied.
func (d *Decision) Tightest() *Bound {
	var best *Bound
	for i := range d.Bounds {
		b := &d.Bounds[i]
		if best == nil || tighter(b, best) {
			best = b
		}
	}
	return best
}

func tighter(a, b *Bound) bool {
	if a.Result.RetryAfter != b.Result.RetryAfter {
		return a.Result.RetryAfter > b.Result.RetryAfter
	}
	return a.left() < b.left()
}

// left is the part of the permits that could be had at once; what nobody looked at counts
// as whole.
func (b *Bound) left() float64 {
	if b.Result.Remaining < 0 {
		return 1
	}
	l, err := b.Demand.Limit.Normal()
	if err != nil {
		return 1 // not with a limit that was checked
	}
	return float64(b.Result.Remaining) / float64(l.Max())
}

// Degraded is the store's error if a failure policy admitted the request.
func (d *Decision) Degraded() error {
	for _, b := range d.Bounds {
		if b.Result.Degraded != nil {
			return b.Result.Degraded
		}
	}
	return nil
}
