package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
)

// Suite runs the cases outside go test.
type Suite struct {
	Harness Harness
	// Only selects cases; nil selects all.
	Only func(Case) bool
	// Parallel is how many cases run at a time; 0 is [DefaultParallel].
	Parallel int
	// Seed of whatever is random in the cases; 0 takes one at random.
	Seed uint64
	// Started and Finished tell the progress. Calls do not overlap.
	Started  func(Case)
	Finished func(Result)
	// Alone is the command that runs one case alone, with %s for its id. It is shown with
	// every failure.
	Alone string
}

// DefaultParallel is how many cases run at a time. Most of them wait for time to pass.
const DefaultParallel = 6

// Run runs the cases. The error is about the harness, never about a case.
func (s *Suite) Run(ctx context.Context) (*Report, error) {
	r, err := s.prepare(ctx)
	if err != nil {
		return nil, err
	}
	defer r.stop()
	var mu sync.Mutex
	r.each(func(c *Case) {
		if s.Started != nil {
			mu.Lock()
			s.Started(*c)
			mu.Unlock()
		}
		res := r.runCase(ctx, c)
		r.add(res)
		if s.Finished != nil {
			mu.Lock()
			s.Finished(res)
			mu.Unlock()
		}
	})
	return r.finish(), nil
}

// runner is one run of the suite.
type runner struct {
	suite  *Suite
	cases  []Case
	locks  bool // the halves that the store has
	limits bool
	pulse  *pulse

	mu     sync.Mutex
	report Report
}

func (s *Suite) prepare(ctx context.Context) (*runner, error) {
	if s.Harness.Open == nil {
		return nil, errors.New("conformance: Harness.Open is nil")
	}
	r := &runner{suite: s, pulse: startPulse()}
	for _, c := range Cases() {
		if s.Only == nil || s.Only(c) {
			r.cases = append(r.cases, c)
		}
	}
	seed := s.Seed
	for seed == 0 {
		seed = rand.Uint64()
	}
	r.report = Report{
		Schema: Schema, Seed: seed, Started: time.Now(),
		Run: fmt.Sprintf("%x", rand.Uint64()), // never of the seed: keys of an earlier run may still be there
		Env: Environment{Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU()},
	}
	if err := r.probe(ctx); err != nil {
		r.stop()
		return nil, err
	}
	return r, nil
}

// probe opens the store once, to see what it is.
func (r *runner) probe(ctx context.Context) error {
	rec := newRecorder(ctx, "open")
	done := make(chan struct{})
	go func() {
		defer close(done)
		rec.run(func() {
			b := r.suite.Harness.Open(rec)
			if b == nil {
				rec.Fatalf("Open gave nil")
			}
			r.report.Store = b.Info()
			_, r.locks = b.(driver.Locker)
			_, r.limits = b.(driver.Limiter)
			if err := b.Close(); err != nil {
				rec.Errorf("Close: %v", err)
			}
		})
	}()
	<-done
	if messages, failed, _ := rec.result(); failed {
		return fmt.Errorf("conformance: the store does not open: %s", lastFailure(messages))
	}
	return nil
}

func lastFailure(messages []Message) string {
	for _, m := range slices.Backward(messages) {
		if m.Failure {
			return m.Text
		}
	}
	return ""
}

func (r *runner) stop() { r.pulse.stop() }

// each calls fn for every case: several at a time, and then one at a time those
// that disturb others.
func (r *runner) each(fn func(*Case)) {
	work := make(chan *Case)
	var wg sync.WaitGroup
	for range cmp.Or(r.suite.Parallel, DefaultParallel) {
		wg.Go(func() {
			for c := range work {
				fn(c)
			}
		})
	}
	for i := range r.cases {
		if !r.cases[i].exclusive() {
			work <- &r.cases[i]
		}
	}
	close(work)
	wg.Wait()
	for i := range r.cases {
		if r.cases[i].exclusive() {
			fn(&r.cases[i])
		}
	}
}

func (r *runner) add(res Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Results = append(r.report.Results, res)
}

func (r *runner) finish() *Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Took = time.Since(r.report.Started)
	r.report.Env.Starved = r.pulse.longest(r.report.Started)
	slices.SortFunc(r.report.Results, func(a, b Result) int { return strings.Compare(a.ID, b.ID) })
	report := r.report
	return &report
}

// runCase runs one case, unless something that it needs is missing.
func (r *runner) runCase(ctx context.Context, c *Case) Result {
	claims := r.suite.Harness.Claims
	res := Result{Case: *c}
	unclaimed := c.Proves != "" && !claimed(claims, c.Proves)
	if reason := r.unsupported(c); reason != "" {
		res.Outcome, res.Reason = Unsupported, reason
		return res
	}
	for _, hk := range c.Hooks {
		if reason := r.suite.Harness.lacks(hk); reason != "" {
			res.Outcome, res.Reason = Unproven, reason
			if unclaimed {
				res.Outcome, res.Reason = Unsupported, fmt.Sprintf("the store does not claim %q", c.Proves)
			}
			return res
		}
	}
	began := time.Now()
	rec := newRecorder(ctx, c.FullName())
	r.guard(rec, c)
	var failed bool
	res.Messages, failed, res.Measures = rec.result()
	res.Took = time.Since(began)
	switch {
	case unclaimed && failed:
		res.Outcome, res.Reason, res.Messages = Unsupported, fmt.Sprintf("the store does not claim %q", c.Proves), nil
	case unclaimed:
		res.Outcome, res.Unclaimed = Unsupported, c.Proves
		res.Reason = fmt.Sprintf("the store does not claim %q, yet the case passes: it could", c.Proves)
	case failed:
		res.Outcome = Fail
	default:
		res.Outcome = Pass
	}
	return res
}

// claimed reports whether claims say c, or something that includes it: tokens that rise even
// when all is lost also rise over a restart.
func claimed(claims driver.Claims, c driver.Claim) bool {
	return claims.Has(c) || c == driver.TokenRestart && claims.Has(driver.TokenClockSeeded)
}

// unsupported says why the case is not about this store, "" if it is.
func (r *runner) unsupported(c *Case) string {
	switch missing := r.suite.Harness.Claims.Missing(c.Needs...); {
	case c.locks() && !r.locks:
		return "the store has no locks"
	case c.limits() && !r.limits:
		return "the store has no limits"
	case slices.Contains(c.Hooks, HookWorker) && r.suite.Harness.Claims.Has(driver.ScopeProcess):
		return "the store is of one process, and the case is about several"
	case len(missing) > 0:
		return fmt.Sprintf("the store does not claim %q", missing)
	}
	return ""
}

const (
	usualBound = 30 * time.Second
	// comeBack is how long a case has to end once its context was cancelled.
	comeBack = 5 * time.Second
)

// guard runs the case under a watchdog. A case that overruns its bound fails, with the
// stacks of all goroutines; one that does not end even then is left behind.
func (r *runner) guard(rec *recorder, c *Case) {
	e := r.newEnv(rec, c)
	done := make(chan struct{})
	go func() {
		defer close(done)
		rec.run(func() { c.run(e) })
	}()
	bound := cmp.Or(c.bound, usualBound) + 20*(e.ttl-shortTTL)
	watchdog := time.NewTimer(bound)
	defer watchdog.Stop()
	select {
	case <-done:
		return
	case <-watchdog.C:
	}
	rec.Errorf("the case did not end within %v; all goroutines:\n%s", bound, stacks())
	rec.cancel()
	watchdog.Reset(comeBack)
	select {
	case <-done:
	case <-watchdog.C:
		rec.Errorf("the case did not end %v after its context was cancelled, either: it is left behind", comeBack)
	}
}

func stacks() []byte {
	buf := make([]byte, 1<<20)
	return buf[:runtime.Stack(buf, true)]
}

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
	fmt.Fprintf(&b, "  why it matters: %s\n", res.Why)
	if alone != "" {
		fmt.Fprintf(&b, "  alone: "+alone+"\n", res.ID)
	}
	return b.String()
}

// Explain is a result as a person reads it: every message of the case, the
// clause that it is about and the command that runs it alone.
func (s *Suite) Explain(res Result) string { return res.explain(s.Alone) }
