package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/rules"
)

// accountOf says which account a request is about.
type accountOf struct {
	Key     string   `json:"key,omitempty" doc:"Whose permits these are"`
	Limit   string   `json:"limit,omitempty" doc:"A limit of the configuration, by name; by default the one whose name is key"`
	Rate    string   `json:"rate,omitempty" doc:"In place of limit, where the configuration has ad_hoc_limits: such as 2000/1m or 100/1s burst=20"`
	Rule    string   `json:"rule,omitempty" doc:"In place of key: the limits of a rule of the configuration"`
	Subject []string `json:"subject,omitempty" doc:"What the rule counts by: an address, a user; one for each part of a combination"`
}

// oneAccount is a request about an account and nothing else.
type oneAccount struct{ accountOf }

type demandOf struct {
	accountOf
	N *int `json:"n,omitempty" doc:"How many permits; 1 by default"`
}

type takeRequest struct {
	demandOf
	AtMost bool       `json:"at_most,omitempty" doc:"Take as many of n as there are"`
	Wait   int64      `json:"wait_ms,omitempty" doc:"How long to wait for the permits; 0, the default, is not at all"`
	All    []demandOf `json:"all,omitempty" doc:"In place of the others: several demands, all or none"`
}

// takeAnswer is a decision. That a limit denies is no error.
type takeAnswer struct {
	Allowed    bool          `json:"allowed"`
	Granted    int           `json:"granted" doc:"How many permits were taken"`
	RetryAfter int64         `json:"retry_after_ms,omitempty" doc:"When to try again, after a denial"`
	Degraded   string        `json:"degraded,omitempty" doc:"The store did not answer, and failure_policy open has admitted: why"`
	Limits     []limitAnswer `json:"limits" doc:"Each limit; of a request that waited none"`
}

type limitAnswer struct {
	Key        string `json:"key"`
	Limit      string `json:"limit" doc:"Such as 2000/1m"`
	Allowed    bool   `json:"allowed"`
	Granted    int    `json:"granted"`
	Remaining  int    `json:"remaining" doc:"Permits that are left"`
	RetryAfter int64  `json:"retry_after_ms,omitempty" doc:"When it is worth trying again"`
	ResetAfter int64  `json:"reset_after_ms,omitempty" doc:"When all permits are back"`
}

// accounts are those that q is about, each with n permits; of a rule, n times its cost.
func (s *Server) accounts(c *caller, right config.Right, q *accountOf, n int) (list []rules.Bound, err error) {
	cfg := s.client.Config()
	switch {
	case q.Rule != "" && (q.Key != "" || q.Limit != "" || q.Rate != ""):
		return nil, invalid("rule beside key, limit or rate: want one of them")
	case q.Rule != "":
		bounds, err := cfg.Rules.Account(q.Rule, q.Subject...)
		if err != nil {
			return nil, err
		}
		for _, b := range bounds {
			if b.Demand.N, err = times(n, b.Demand.N); err != nil {
				return nil, err
			}
			list = append(list, b)
		}
	case q.Key == "":
		return nil, invalid("want key, or rule")
	default:
		if err := c.may(right, q.Key); err != nil { // before it is told whether there is such a limit
			return nil, err
		}
		limit, err := s.limit(cfg, q)
		if err != nil {
			return nil, err
		}
		list = []rules.Bound{{Demand: coord.Demand{Key: q.Key, Limit: limit, N: n}}}
	}
	for _, b := range list {
		if err := c.may(right, b.Demand.Key); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// times is what n requests of that cost take.
func times(n, cost int) (int, error) {
	if n < 0 || n > 0 && cost > coord.MaxCharge/n {
		return 0, invalid(fmt.Sprintf("%d times the cost of %d: want 0 to %d in all", n, cost, int64(coord.MaxCharge)))
	}
	return n * cost, nil
}

// limit is the one of a key.
func (s *Server) limit(cfg *config.Config, q *accountOf) (coord.Limit, error) {
	name := cmp.Or(q.Limit, q.Key)
	limit, known := cfg.Limits[name]
	switch {
	case len(q.Subject) > 0:
		return coord.Limit{}, invalid("subject without rule")
	case q.Rate != "" && q.Limit != "":
		return coord.Limit{}, invalid("rate beside limit: want one of them")
	case q.Rate != "" && !s.cfg.AdHocLimits:
		return coord.Limit{}, &failure{http.StatusForbidden, "forbidden", "rate: the configuration has no ad_hoc_limits: name a limit of it"}
	case (q.Rate != "" || name != q.Key) && configured(cfg, q.Key):
		return coord.Limit{}, invalid("key: the configuration says which limit it has: want no other")
	case q.Rate != "":
		return coord.ParseLimit(q.Rate)
	case !known:
		return coord.Limit{}, invalid("no limit " + strconv.Quote(name) + " in the configuration")
	}
	return limit, nil
}

// configured reports whether the account of a key is a limit's or a rule's of the configuration. Another limit would
// change what is left of it for everybody.
func configured(cfg *config.Config, key string) bool {
	scope, _, _ := strings.Cut(key, "/")
	return cfg.Limits[key] != coord.Limit{} || slices.Contains([]string{"rule", "limit", "shadow"}, scope)
}

// permits is how many a demand is for.
func (d *demandOf) permits() (int, error) {
	switch {
	case d.N == nil:
		return 1, nil
	case *d.N < 1 || *d.N > coord.MaxCharge:
		return 0, invalid(fmt.Sprintf("n %d: want 1 to %d", *d.N, int64(coord.MaxCharge)))
	}
	return *d.N, nil
}

// demands are those of q.
func (s *Server) demands(c *caller, q *demandOf) ([]rules.Bound, error) {
	n, err := q.permits()
	if err != nil {
		return nil, err
	}
	return s.accounts(c, config.Take, &q.accountOf, n)
}

func (s *Server) take(ctx context.Context, c *caller, q *takeRequest) (*takeAnswer, error) {
	if q.Wait < 0 || q.Wait > s.cfg.MaxWait.Milliseconds() {
		return nil, invalid(fmt.Sprintf("wait_ms %d: want 0 to %d", q.Wait, s.cfg.MaxWait.Milliseconds()))
	}
	list, err := s.takes(c, q)
	if err != nil {
		return nil, err
	}
	if q.Wait == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTime)
		defer cancel()
	}
	switch one := list[0].Demand; {
	case len(list) > 1 && (q.AtMost || q.Wait > 0):
		return nil, invalid("at_most or wait_ms with several limits: want neither")
	case q.AtMost && q.Wait > 0:
		return nil, invalid("at_most beside wait_ms: want one of them")
	case len(list) > 1:
		results, err := s.client.AllowAll(ctx, demandsOf(list)...)
		return newTakeAnswer(ctx, list, results, err)
	case q.Wait > 0:
		return s.takeLater(ctx, list, ms(q.Wait))
	case q.AtMost:
		r, err := s.client.AllowAtMost(ctx, one.Key, one.Limit, one.N)
		return newTakeAnswer(ctx, list, []coord.Result{r}, err)
	default:
		r, err := s.client.AllowN(ctx, one.Key, one.Limit, one.N)
		return newTakeAnswer(ctx, list, []coord.Result{r}, err)
	}
}

func demandsOf(list []rules.Bound) (demands []coord.Demand) {
	for _, b := range list {
		demands = append(demands, b.Demand)
	}
	return demands
}

// takes are the demands of q, one or several.
func (s *Server) takes(c *caller, q *takeRequest) (list []rules.Bound, err error) {
	if len(q.All) == 0 {
		return s.demands(c, &q.demandOf)
	}
	if q.Key != "" || q.Limit != "" || q.Rate != "" || q.Rule != "" || q.N != nil {
		return nil, invalid("all beside another demand: want one of them")
	}
	for i := range q.All {
		more, err := s.demands(c, &q.All[i])
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	return list, nil
}

// takeLater waits. That the permits did not come is an answer.
func (s *Server) takeLater(ctx context.Context, list []rules.Bound, wait time.Duration) (*takeAnswer, error) {
	d, policy := list[0].Demand, rules.Policy(list...)
	if policy != nil && *policy == coord.FailClosed && s.client.Config().FailurePolicy == coord.FailOpen {
		// A wait that was admitted does not tell whether the store did that.
		return nil, &failure{http.StatusNotImplemented, "unsupported", "wait_ms of a rule with failure_policy closed, where that of the file is open"}
	}
	waiting, cancel := s.untilDraining(ctx)
	defer cancel()
	waiting, cancel = context.WithTimeout(waiting, wait)
	defer cancel()
	err := s.client.WaitN(waiting, d.Key, d.Limit, d.N)
	var known *coord.Error
	switch {
	case err == nil:
		return &takeAnswer{Allowed: true, Granted: d.N, Limits: []limitAnswer{}}, nil
	case s.draining.Load():
		return nil, errDraining
	case ctx.Err() == nil && errors.Is(err, coord.ErrLimited) && errors.As(err, &known):
		return &takeAnswer{RetryAfter: ceilMS(known.RetryAfter), Limits: []limitAnswer{}}, nil
	}
	return newTakeAnswer(ctx, list, []coord.Result{{}}, err)
}

// newTakeAnswer tells what came of a take. The failure policies of rules decide where the store did not.
func newTakeAnswer(ctx context.Context, list []rules.Bound, results []coord.Result, err error) (*takeAnswer, error) {
	d := rules.Decision{Allowed: true, Bounds: list}
	for i, r := range results {
		d.Bounds[i].Result = r
		d.Allowed = d.Allowed && r.Allowed
	}
	if d, err = rules.Apply(ctx, d, err); err != nil {
		return nil, err
	}
	a := &takeAnswer{Allowed: d.Allowed, Limits: []limitAnswer{}}
	for _, b := range d.Bounds {
		a.Limits = append(a.Limits, newLimitAnswer(b.Demand, b.Result))
		if a.Granted = max(a.Granted, b.Result.Granted); !b.Result.Allowed {
			a.RetryAfter = max(a.RetryAfter, ceilMS(b.Result.RetryAfter))
		}
	}
	if !a.Allowed {
		a.Granted = 0
	}
	if why := d.Degraded(); why != nil {
		a.Degraded = why.Error()
	}
	return a, nil
}

func newLimitAnswer(d coord.Demand, r coord.Result) limitAnswer {
	return limitAnswer{d.Key, d.Limit.String(), r.Allowed, r.Granted, r.Remaining, ceilMS(r.RetryAfter), ceilMS(r.ResetAfter)}
}

// limitsAnswer is how limits stand.
type limitsAnswer struct {
	Limits []limitAnswer `json:"limits"`
}

// each does something to each account, and tells how it stands then.
func each(list []rules.Bound, do func(d coord.Demand) (coord.Result, error)) (*limitsAnswer, error) {
	a := &limitsAnswer{Limits: []limitAnswer{}}
	for _, b := range list {
		r, err := do(b.Demand)
		if err == nil {
			err = r.Degraded // the failure policy has answered, not the store
		}
		if err != nil {
			return nil, err
		}
		a.Limits = append(a.Limits, newLimitAnswer(b.Demand, r))
	}
	return a, nil
}

func (s *Server) peek(ctx context.Context, c *caller, q *oneAccount) (*limitsAnswer, error) {
	list, err := s.accounts(c, config.Read, &q.accountOf, 1)
	if err != nil {
		return nil, err
	}
	return each(list, func(d coord.Demand) (coord.Result, error) { return s.client.Peek(ctx, d.Key, d.Limit) })
}

func (s *Server) reset(ctx context.Context, c *caller, q *oneAccount) (*limitsAnswer, error) {
	list, err := s.accounts(c, config.Break, &q.accountOf, 1)
	if err != nil {
		return nil, err
	}
	return each(list, func(d coord.Demand) (coord.Result, error) {
		if err := s.client.Reset(ctx, d.Key, d.Limit); err != nil {
			return coord.Result{}, err
		}
		return s.client.Peek(ctx, d.Key, d.Limit)
	})
}

func (s *Server) charge(ctx context.Context, c *caller, q *demandOf) (*limitsAnswer, error) {
	list, err := s.demands(c, q)
	if err != nil {
		return nil, err
	}
	return each(list, func(d coord.Demand) (coord.Result, error) { return s.client.Charge(ctx, d.Key, d.Limit, d.N) })
}

type settleRequest struct {
	accountOf
	Estimated int `json:"estimated" doc:"How many permits were taken before"`
	Used      int `json:"used" doc:"How many were used"`
}

func (s *Server) settle(ctx context.Context, c *caller, q *settleRequest) (*limitsAnswer, error) {
	list, err := s.accounts(c, config.Take, &q.accountOf, 1)
	if err != nil {
		return nil, err
	}
	return each(list, func(d coord.Demand) (coord.Result, error) {
		estimated, err := times(q.Estimated, d.N)
		if err != nil {
			return coord.Result{}, err
		}
		used, err := times(q.Used, d.N)
		if err != nil {
			return coord.Result{}, err
		}
		limit, err := d.Limit.Normal()
		if err != nil {
			return coord.Result{}, err
		}
		if estimated > max(used, limit.Max()) { // more than a take can have taken: a reset
			if err := c.may(config.Break, d.Key); err != nil {
				return coord.Result{}, err
			}
		}
		if err := s.client.Settle(ctx, d.Key, d.Limit, estimated, used); err != nil {
			return coord.Result{}, err
		}
		return s.client.Peek(ctx, d.Key, d.Limit)
	})
}
