package conformance

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/coordgo/coord/driver"
)

// A history is what several clients asked of a store at the same time, and what they
// were told. It is linearizable if every operation can be given one instant between its
// call and its return at which it took effect, such that the operations, in that order,
// are what a simple sequential model would have answered (Herlihy and Wing, 1990).
// docs/histories.md has the models, and how unknown outcomes and time are treated.

// operation is one call: what was asked, when, and what came of it.
type operation struct {
	Client int    `json:"client"`
	Op     string `json:"op"`
	Key    string `json:"key"`
	// Who is the id of the hold or ask at a driver, the owner at a Client.
	Who string `json:"who,omitempty"`
	// Call and Return are nanoseconds since the run began, on the monotonic clock.
	Call   int64  `json:"call_ns"`
	Return int64  `json:"return_ns"`
	Result result `json:"result"`
	// Error is the text behind a result that is no plain answer.
	Error string `json:"error,omitempty"`

	// Shaken tells that a fault of the network was about while the call was under way, by which a
	// client's library may have sent it twice.
	Shaken bool `json:"shaken,omitempty"`

	// Of locks. The lease certainly lasts from Start for TTL.
	Token int64 `json:"token,omitempty"`
	Start int64 `json:"start_ns,omitempty"`
	TTL   int64 `json:"ttl_ns,omitempty"`

	// Of shared holds, what was asked for; Slot is what was given.
	Mode   driver.Mode `json:"mode,omitempty"`
	Weight int64       `json:"weight,omitempty"`
	Of     int64       `json:"of,omitempty"`
	Head   bool        `json:"head,omitempty"`
	Slot   int         `json:"slot,omitempty"`

	// Of limits.
	Min        int   `json:"min,omitempty"`
	N          int   `json:"n,omitempty"`
	Granted    int   `json:"granted,omitempty"`
	Remaining  int   `json:"remaining,omitempty"`
	RetryAfter int64 `json:"retry_after_ns,omitempty"`
	ResetAfter int64 `json:"reset_after_ns,omitempty"`

	// What the other operations of the history say about this one; see prepare.
	excused, refunded bool
	// blur is how far the clocks of the clients may be apart, and end is the end of the history.
	blur, end int64
}

// The operations.
const (
	opTry    = "try"    // TryLock, of a driver or a Client
	opLock   = "lock"   // Lock of a Client
	opRenew  = "renew"  // Renew
	opUnlock = "unlock" // Unlock
	opCheck  = "check"  // Lock.Err
	opWrite  = "write"  // a write to a resource that checks tokens
	opTake   = "take"   // Take of one ask
	opRefund = "refund" // Refund
	opReset  = "reset"  // Reset
)

// result is the class of an answer.
type result string

const (
	resOK      result = "ok"
	resLocked  result = "locked"
	resNotHeld result = "not held"
	resLost    result = "lost"
	resRefused result = "refused" // by the resource
	// resOver: an Unlock that the store did not confirm. The hold is over all the same.
	resOver    result = "over"
	resNothing result = "nothing" // an error that says that nothing was changed
	// resUnknown: the operation may have taken effect at any time since its call, may yet
	// do so, or may never.
	resUnknown result = "unknown"
)

// last is until when the operation may have taken effect.
func (o *operation) last() int64 {
	if o.Result == resUnknown {
		return math.MaxInt64
	}
	return o.Return
}

// history collects operations from many goroutines.
type history struct {
	heading
	began time.Time

	mu  sync.Mutex
	ops []operation
}

// heading says what the operations of a history are of, and so how to check them.
type heading struct {
	Schema int    `json:"schema"`
	Model  string `json:"model"`
	// Case, Store and Seed say where the history is from.
	Case  string `json:"case,omitempty"`
	Store string `json:"store,omitempty"`
	Seed  uint64 `json:"seed,omitempty"`
	// Lapse is for how long after its end a lease may still bar others, 0 without a bound.
	Lapse time.Duration `json:"lapse_ns,omitempty"`
	// Limit that was asked for.
	Limit driver.Limit `json:"limit,omitzero"`
	// Skewed tells that the store counts on its clients' clocks, and may deny more than
	// an exact one.
	Skewed bool `json:"skewed,omitempty"`
}

// historySchema is the version of the form in which a history is saved.
const historySchema = 1

func newHistory(h heading) *history {
	h.Schema = historySchema
	return &history{heading: h, began: time.Now()}
}

// now is the time of the history.
func (h *history) now() int64 { return int64(time.Since(h.began)) }

// at converts an instant.
func (h *history) at(t time.Time) int64 { return int64(t.Sub(h.began)) }

func (h *history) add(o operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, o)
}

// recorded is how many operations there are by now.
func recorded(all []*history) int {
	n := 0
	for _, h := range all {
		h.mu.Lock()
		n += len(h.ops)
		h.mu.Unlock()
	}
	return n
}

// byKey gives the operations of each key. Keys share no state, so a history is linearizable if each
// of its keys is (locality; Herlihy and Wing, theorem 1).
func (h *history) byKey() map[string][]operation {
	h.mu.Lock()
	defer h.mu.Unlock()
	keys := make(map[string][]operation)
	for _, o := range h.ops {
		keys[o.Key] = append(keys[o.Key], o)
	}
	for _, ops := range keys {
		slices.SortStableFunc(ops, func(a, b operation) int { return cmp.Compare(a.Call, b.Call) })
	}
	return keys
}

// verdict is what the checker found of the operations of one key.
type verdict struct {
	result porcupine.CheckResult
	model  porcupine.Model
	info   porcupine.LinearizationInfo
}

// check looks for an order of ops, all of one key, that the model allows.
func (h heading) check(ops []operation, patience time.Duration) (verdict, error) {
	model, err := h.model()
	if err != nil {
		return verdict{}, err
	}
	if h.Model == modelMoving { // the model of a fixed window walks over them
		from, to := span(ops)
		if windows := (to - from) / int64(h.Limit.Per); windows > maxWindows {
			return verdict{}, fmt.Errorf("history of %d periods of a limit: want at most %d", windows, maxWindows)
		}
	}
	v := verdict{model: model}
	v.result, v.info = porcupine.CheckOperationsVerbose(model, forChecker(ops), patience)
	return v, nil
}

// maxWindows is how many periods a history of a moving limit may last.
const maxWindows = 10_000

// forChecker gives operations the form of the checker. One of unknown outcome stays open until
// after all others: it may take effect at any time, and one that never did is put last, where
// nobody sees its effect.
func forChecker(ops []operation) []porcupine.Operation {
	ops = slices.Clone(ops)
	prepare(ops)
	_, end := span(ops)
	rows, blur := lanes(ops), blurOf(ops)
	out := make([]porcupine.Operation, len(ops))
	for i := range ops {
		o := &ops[i]
		o.end, o.blur = end, blur
		out[i] = porcupine.Operation{ClientId: rows[i], Input: o, Call: o.Call, Return: min(o.last(), end+1)}
	}
	return out
}

// prepare marks what an operation cannot tell by itself: whether its answer has a reason beside it,
// and whether anyone tries to give back what it took.
func prepare(ops []operation) {
	refunds := make(map[string]bool)
	for i := range ops {
		if ops[i].Op == opRefund {
			refunds[ops[i].Who] = true
		}
	}
	for i := range ops {
		o := &ops[i]
		o.excused = slices.ContainsFunc(ops, o.excusedBy)
		o.refunded = refunds[o.Who]
	}
}

// span is from the first call to the last return.
func span(ops []operation) (from, to int64) {
	for i, o := range ops {
		if i == 0 {
			from, to = o.Call, o.Return
		}
		from, to = min(from, o.Call), max(to, o.Return)
	}
	return from, to
}

// lanes gives each operation a row of the drawing: its client's, or one of its own
// below if the client's is still taken by an operation that is open.
func lanes(ops []operation) []int {
	clients := 0
	for _, o := range ops {
		clients = max(clients, o.Client+1)
	}
	free := make([]int64, clients) // until when each row is taken
	for i := range free {
		free[i] = math.MinInt64
	}
	rows := make([]int, len(ops))
	for i, o := range ops {
		row := o.Client
		for free[row] >= o.Call {
			if row = max(row+1, clients); row == len(free) {
				free = append(free, math.MinInt64)
			}
		}
		free[row], rows[i] = o.last(), row
	}
	return rows
}

// stepper is a sequential model: whether the operation may answer so in state s, and the state after it.
type stepper[S any] interface {
	start() S
	step(s S, o *operation) (S, bool)
	same(a, b S) bool
	show(s S) string
}

// sequential makes of a stepper what the checker takes.
func sequential[S any](m stepper[S]) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return m.start() },
		Step: func(state, input, _ any) (bool, any) {
			s, ok := m.step(state.(S), input.(*operation))
			return ok, s
		},
		Equal:             func(a, b any) bool { return m.same(a.(S), b.(S)) },
		DescribeOperation: func(input, _ any) string { return input.(*operation).String() },
		DescribeState:     func(s any) string { return m.show(s.(S)) },
	}
}

// branching is a sequential model in which several states may follow.
type branching[S any] interface {
	start() S
	steps(s S, o *operation) []S
	same(a, b S) bool
	show(s S) string
}

// several makes of a branching model what the checker takes: its state is the set of those that are possible.
func several[S any](m branching[S]) porcupine.Model {
	nm := porcupine.NondeterministicModel{
		Init: func() []any { return []any{m.start()} },
		Step: func(state, input, _ any) []any {
			var out []any
			for _, s := range m.steps(state.(S), input.(*operation)) {
				out = append(out, s)
			}
			return out
		},
		Equal:             func(a, b any) bool { return m.same(a.(S), b.(S)) },
		DescribeOperation: func(input, _ any) string { return input.(*operation).String() },
		DescribeState:     func(s any) string { return m.show(s.(S)) },
	}
	return nm.ToModel()
}

// model is the one that the heading names.
func (h heading) model() (porcupine.Model, error) {
	if h.Schema != historySchema {
		return porcupine.Model{}, fmt.Errorf("history of schema %d: want %d", h.Schema, historySchema)
	}
	switch h.Model {
	case modelLease:
		return sequential[leaseState](leaseModel{h.Lapse}), nil
	case modelOwners:
		return sequential[ownersState](ownersModel{}), nil
	case modelFence:
		return sequential[int64](fenceModel{}), nil
	}
	l, err := h.Limit.Normal()
	if err != nil {
		return porcupine.Model{}, fmt.Errorf("history of a limit: %w", err)
	}
	switch {
	case h.Model == modelCounter && l.Per >= year/2:
		return several[counterState](counterModel{l}), nil
	case h.Model != modelMoving:
	case l.Algorithm == driver.TokenBucket:
		return sequential[bucketState](bucketModel{l}), nil
	case l.Algorithm == driver.SlidingWindow:
		return sequential[slidingState](slidingModel{l, h.Skewed}), nil
	case l.Algorithm == driver.FixedWindow:
		return several[fixedState](fixedModel{l}), nil
	}
	return porcupine.Model{}, fmt.Errorf("history of the model %q under %v, which there is not", h.Model, l)
}
