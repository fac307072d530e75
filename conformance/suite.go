package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coordgo/coord/conformance/internal/report"
	"github.com/coordgo/coord/conformance/internal/runner"
	"github.com/coordgo/coord/driver"
)

// Suite runs the cases outside go test.
type Suite struct {
	Harness Harness
	// Only selects cases; nil selects all.
	Only func(Case) bool
	// Fast leaves slow cases out: they end as unproven.
	Fast bool
	// Parallel is how many cases run at a time; 0 is [DefaultParallel].
	Parallel int
	// Seed of whatever is random in the cases; 0 takes one at random.
	Seed uint64
	// Started and Finished tell the progress. Calls do not overlap.
	Started  func(Case)
	Finished func(Result)
	// Alone is the command that runs one case alone, with {case} for its id and {seed} for
	// the seed. It is shown with every failure.
	Alone string
}

// DefaultParallel is how many cases run at a time. Most of them wait for time to pass.
const DefaultParallel = 8

// ErrNoStore is that a store does not open, or has gone away in the middle of a run.
var ErrNoStore = errors.New("conformance: there is no store")

// ErrNoCase is that the selection of a run leaves no case.
var ErrNoCase = errors.New("conformance: no case is selected")

// Run runs the cases. The error is about the harness, or ErrNoStore, ErrNoCase, or the cause of ctx's end; never
// about a case. When ctx ends, the report tells of the cases that had ended by then.
func (s *Suite) Run(ctx context.Context) (*Report, error) {
	r, err := s.prepare(ctx)
	if err != nil {
		return nil, err
	}
	if len(r.cases) == 0 {
		return nil, ErrNoCase
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var mu sync.Mutex
	r.each(func(c *Case) {
		if ctx.Err() != nil {
			return
		}
		if s.Started != nil {
			mu.Lock()
			s.Started(*c)
			mu.Unlock()
		}
		res := r.runCase(ctx, c)
		if res.Outcome == Fail {
			if err := r.gone(ctx); err != nil {
				end(err)
			}
		}
		if ctx.Err() != nil {
			return // a case that was cut off says nothing
		}
		r.add(res)
		if s.Finished != nil {
			mu.Lock()
			s.Finished(res)
			mu.Unlock()
		}
	})
	err = context.Cause(ctx)
	if errors.Is(err, ErrNoStore) {
		return nil, err // what failed before may be its going
	}
	if err != nil {
		r.report.Selection.Partial, r.report.Selection.Stopped = true, true
	}
	return r.finish(), err
}

// suiteRun is one run of the suite.
type suiteRun struct {
	suite  *Suite
	cases  []Case
	locks  bool // the halves that the store has
	limits bool
	info   driver.Info

	mu     sync.Mutex
	report Report
}

func (s *Suite) prepare(ctx context.Context) (*suiteRun, error) {
	if s.Harness.Open == nil {
		return nil, errors.New("conformance: Harness.Open is nil")
	}
	if s.Parallel < 0 {
		return nil, fmt.Errorf("conformance: %d cases at a time: want 1 or more, or 0 for %d", s.Parallel, DefaultParallel)
	}
	if err := checkDeviations(s.Harness.Deviations); err != nil {
		return nil, err
	}
	r := &suiteRun{suite: s, cases: s.selected()}
	seed := s.Seed
	for seed == 0 {
		seed = rand.Uint64()
	}
	r.report = Report{
		Schema: Schema, Suite: Version, Seed: seed, Started: time.Now(),
		Run:       fmt.Sprintf("%x", rand.Uint64()), // never of the seed: keys of an earlier run may still be there
		Selection: Selection{Fast: s.Fast, Partial: len(r.cases) < len((&Suite{Harness: s.Harness}).selected())},
	}
	if err := r.probe(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// selected are the cases that run.
func (s *Suite) selected() []Case {
	ofClient := s.Harness.Client || s.Harness.FakeTime
	return slices.DeleteFunc(Cases(), func(c Case) bool { return c.Client && !ofClient || s.Only != nil && !s.Only(c) })
}

// probe opens the store once, to see what it is.
func (r *suiteRun) probe(ctx context.Context) error {
	if why := r.opens(ctx, r.describe); why != "" {
		return fmt.Errorf("%w: it does not open: %s", ErrNoStore, why)
	}
	return nil
}

// gone tells, after a case has failed, that there is no store any more: what the cases say then is no
// fault of the adapter's. A store that was slow once is still there.
func (r *suiteRun) gone(ctx context.Context) error {
	const tries = 3
	why := ""
	for range tries {
		if why = r.opens(ctx, nil); why == "" || ctx.Err() != nil {
			return nil
		}
	}
	return fmt.Errorf("%w any more: %s", ErrNoStore, why)
}

// opens opens the store, shows it to look, and closes it. It says why it could not.
func (r *suiteRun) opens(ctx context.Context, look func(driver.Backend)) string {
	ctx, cancel := context.WithTimeout(ctx, watchdog)
	defer cancel()
	rec := runner.NewRecorder(ctx, "open")
	done := make(chan struct{})
	go func() {
		defer close(done)
		rec.Run(func() {
			b := r.suite.Harness.Open(rec)
			if b == nil {
				rec.Fatalf("Open gave nil")
			}
			if look != nil {
				look(b)
			}
			if err := b.Close(); err != nil {
				rec.Errorf("Close: %v", err)
			}
		})
	}()
	select {
	case <-done:
	case <-time.After(watchdog + runner.ComeBack):
		return fmt.Sprintf("Open did not return within %v", watchdog+runner.ComeBack)
	}
	messages, _ := rec.Result()
	return lastFailure(messagesOf(messages))
}

// describe notes what the store says of itself.
func (r *suiteRun) describe(b driver.Backend) {
	r.info = b.Info()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := b.Renew(ctx, "of-no-hold", driver.Request{ID: "of-nobody", TTL: max(r.info.MinTTL, time.Second)})
	r.locks = !errors.Is(err, driver.ErrUnsupported)
	_, err = b.Take(ctx, "a peek", normal(driver.Limit{Rate: 1, Per: time.Hour}), []driver.Ask{{}})
	r.limits = !errors.Is(err, driver.ErrUnsupported)
	r.report.Store = Store{
		Name: r.info.Name, Server: r.info.Server, Claims: r.info.Claims, Locks: r.locks, Limits: r.limits,
		MinTTL: r.info.MinTTL, TTLStep: r.info.TTLStep, MaxTTL: r.info.MaxTTL, MaxKey: r.info.MaxKey,
	}
}

func messagesOf(said []report.Message) []Message {
	list := make([]Message, len(said))
	for i, m := range said {
		list[i] = Message(m)
	}
	return list
}

func lastFailure(messages []Message) string {
	for _, m := range slices.Backward(messages) {
		if m.Failure {
			return m.Text
		}
	}
	return ""
}

// each calls fn for every case, in the order of package runner.
func (r *suiteRun) each(fn func(c *Case)) {
	jobs := make([]runner.Job, len(r.cases))
	for i := range r.cases {
		jobs[i] = runner.Job{Long: r.cases[i].Slow, Alone: r.cases[i].exclusive()}
	}
	runner.Each(jobs, cmp.Or(r.suite.Parallel, DefaultParallel), func(i int) { fn(&r.cases[i]) })
}

func (r *suiteRun) add(res Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Results = append(r.report.Results, res)
}

func (r *suiteRun) finish() *Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Took = time.Since(r.report.Started)
	slices.SortFunc(r.report.Results, func(a, b Result) int { return byID(a.ID, b.ID) })
	r.report.summarize(r.suite.Harness.Deviations)
	report := r.report
	return &report
}

// runCase runs one case, unless something that it needs is missing.
func (r *suiteRun) runCase(ctx context.Context, c *Case) Result {
	claims := r.suite.Harness.Claims
	res := Result{Case: *c}
	unclaimed := c.Proves != "" && !claimed(claims, c.Proves)
	if reason := r.unsupported(c); reason != "" {
		res.Outcome, res.Reason = Unsupported, reason
		return res
	}
	if reason := r.unproven(c); reason != "" {
		res.Outcome, res.Reason = Unproven, reason
		if unclaimed {
			res.Outcome, res.Reason = Unsupported, fmt.Sprintf("the store does not claim %q", c.Proves)
		}
		return res
	}
	began := time.Now()
	rec := runner.NewRecorder(ctx, c.FullName())
	e := r.newEnv(rec, c)
	rec.Guard(ctx, caseBound, func() { c.run(e) })
	if rec.Failed() {
		if moved := runner.ClockMoved(began); moved.Abs() > time.Millisecond {
			rec.Logf("this machine's clock was set by %v while the case ran: a limit that counts by it seems to be wrong by as much", moved.Round(time.Microsecond))
		}
	}
	messages, failed := rec.Result()
	res.Messages, res.Took = messagesOf(messages), time.Since(began)
	switch aside := rec.Aside(); {
	case aside != "" && !failed:
		res.Outcome, res.Reason = Unsupported, aside
	case unclaimed && failed:
		res.Outcome, res.Reason, res.Messages = Unsupported, fmt.Sprintf("the store does not claim %q", c.Proves), nil
	case unclaimed:
		res.Outcome, res.Unclaimed = Unsupported, c.Proves
		res.Reason = fmt.Sprintf("the store does not claim %q, yet the case passes: it could", c.Proves)
	case failed:
		res.Outcome = Fail
		if d, ok := r.suite.Harness.deviation(c); ok {
			res.Outcome, res.Reason = Deviates, d.Reason
		}
	default:
		res.Outcome = Pass
	}
	return res
}

// unsupported says why the case is not about this store, "" if it is.
func (r *suiteRun) unsupported(c *Case) string {
	switch missing := r.suite.Harness.Claims.Missing(c.Needs...); {
	case c.locks() && !r.locks:
		return "the store has no locks"
	case c.limits() && !r.limits:
		return "the store has no limits"
	case len(missing) > 0:
		return fmt.Sprintf("the store does not claim %q", missing)
	}
	for _, hk := range c.Hooks {
		reason := r.suite.Harness.pointless(hk)
		if reason != "" && (hk != HookWorker || c.Proves != driver.ScopeProcess) { // that other processes have no part in it
			return reason
		}
	}
	return ""
}

// unproven says why the case cannot be tried in this run, "" if it can.
func (r *suiteRun) unproven(c *Case) string {
	for _, hk := range c.Hooks {
		if reason := r.suite.Harness.lacks(hk); reason != "" {
			return reason
		}
	}
	if c.Slow && r.suite.Fast {
		return leftOut
	}
	return ""
}

const (
	// leftOut is why a slow case is unproven after a fast pass.
	leftOut = "left out by the fast pass: run the full one"
	// caseBound is when the watchdog ends a case. A case awaits events, each with a watchdog of its own.
	caseBound = 5 * time.Minute
)

// explain is a failed result as a person reads it.
func (res *Result) explain(alone string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s breaks clause %s of docs/contract.md\n", res.ID, res.Clause)
	for _, m := range res.Messages {
		mark := " "
		if m.Failure {
			mark = "✗"
		}
		fmt.Fprintf(&b, "  %s %s (%v): %s\n", mark, m.At, m.After.Round(time.Millisecond), m.Text)
	}
	if res.Remedy != "" {
		fmt.Fprintf(&b, "  usual remedy: %s\n", res.Remedy)
	}
	fmt.Fprintf(&b, "  why it matters: %s\n", res.Why)
	if alone != "" {
		fmt.Fprintf(&b, "  alone: %s\n", strings.ReplaceAll(alone, "{case}", res.ID))
	}
	return b.String()
}

// Explain is a result as a person reads it: every message of the case, the
// clause that it is about and the command that runs it alone.
func (s *Suite) Explain(res Result) string {
	return res.explain(strings.ReplaceAll(s.Alone, "{seed}", fmt.Sprint(s.Seed)))
}
