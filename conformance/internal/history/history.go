// Package history records what several clients asked of a store at the same time, and what they were told, and checks
// it. It takes operations and gives a verdict: it knows neither the cases nor the stores.
//
// A history is linearizable if every operation can be given one instant between its call and its return at which it
// took effect, such that the operations, in that order, are what a simple sequential model would have answered
// (Herlihy and Wing, 1990). docs/contributing/histories.md has the models, and how unknown outcomes and time are treated.
package history

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/coordgo/coord/driver"
)

// Operation is one call: what was asked, when, and what came of it.
type Operation struct {
	Client int    `json:"client"`
	Op     string `json:"op"`
	Key    string `json:"key"`
	// Who is the id of the hold or the request at a driver, and the owner at a Client.
	Who string `json:"who,omitempty"`
	// Call and Return are nanoseconds since the run began, on the monotonic clock.
	Call   int64  `json:"call_ns"`
	Return int64  `json:"return_ns"`
	Result Result `json:"result"`
	// Error is the text behind a result that is no plain answer.
	Error string `json:"error,omitempty"`

	// Shaken tells that there was a fault of the network during the call. A client's library may have sent it twice.
	Shaken bool `json:"shaken,omitempty"`

	// Of locks. The lease certainly lasts from Start for TTL.
	Token int64 `json:"token,omitempty"`
	Start int64 `json:"start_ns,omitempty"`
	TTL   int64 `json:"ttl_ns,omitempty"`

	// Of shared holds, what was requested. Slot is what was granted.
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

	// refunded tells that anyone tries to give back what it took; see prepare.
	refunded bool
	// blur is how far the clocks of the clients may be apart, and end is the end of the history.
	blur, end int64
}

// The operations.
const (
	OpTry    = "try"    // TryLock, of a driver or a Client
	OpLock   = "lock"   // Lock of a Client
	OpRenew  = "renew"  // Renew
	OpUnlock = "unlock" // Unlock
	OpCheck  = "check"  // Lock.Err
	OpTake   = "take"   // Take of one request
	OpRefund = "refund" // Refund
	OpReset  = "reset"  // Reset
)

// Result is the class of an answer.
type Result string

// The results.
const (
	OK      Result = "ok"
	Locked  Result = "locked"
	NotHeld Result = "not held"
	Lost    Result = "lost"
	// Unconfirmed is an Unlock that the store did not confirm. The hold is over all the same.
	Unconfirmed Result = "over"
	Nothing     Result = "nothing" // an error that says that nothing was changed
	// Unknown is an operation that may have taken effect at any time since its call, may yet do so, or may never.
	Unknown Result = "unknown"
)

// last is until when the operation may have taken effect.
func (o *Operation) last() int64 {
	if o.Result == Unknown {
		return math.MaxInt64
	}
	return o.Return
}

// Log collects operations from many goroutines.
type Log struct {
	Heading
	began time.Time

	mu   sync.Mutex
	last int64 // that Now gave
	ops  []Operation
}

// Heading says what the operations of a history are about, and so how to check them.
type Heading struct {
	Schema int    `json:"schema"`
	Model  string `json:"model"`
	// Case, Store and Seed say where the history is from.
	Case  string `json:"case,omitempty"`
	Store string `json:"store,omitempty"`
	Seed  uint64 `json:"seed,omitempty"`
	// Lapse is how long after its end a lease may still keep others out. 0 is no bound.
	Lapse time.Duration `json:"lapse_ns,omitempty"`
	// Limit of the requests.
	Limit driver.Limit `json:"limit,omitzero"`
	// Skewed tells that the store uses its clients' clocks. It may deny more than an exact store.
	Skewed bool `json:"skewed,omitempty"`
}

// Schema is the version of the form in which a history is saved.
const Schema = 1

// New begins a history.
func New(h Heading) *Log {
	h.Schema = Schema
	return &Log{Heading: h, began: time.Now()}
}

// Now is the time of the history. It is never twice the same, on a clock with long steps, too: of two moments that
// follow each other the first is the smaller one.
func (l *Log) Now() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = max(int64(time.Since(l.began)), l.last+1)
	return l.last
}

// At converts an instant to the time of the history.
func (l *Log) At(t time.Time) int64 { return int64(t.Sub(l.began)) }

// Add adds an operation that has returned.
func (l *Log) Add(o Operation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops = append(l.ops, o)
}

// Len is how many operations there are by now.
func (l *Log) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ops)
}

// Since reports whether an operation that was called after t succeeded.
func (l *Log) Since(t int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.ops, func(o Operation) bool { return o.Call > t && o.Result == OK })
}

// Last is the operation that was added last. There is one.
func (l *Log) Last() Operation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ops[len(l.ops)-1]
}

// ByKey gives the operations of each key, in the order of their calls. Keys share no state, so a history is
// linearizable if each of its keys is (locality; Herlihy and Wing, theorem 1).
func (l *Log) ByKey() map[string][]Operation {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys := make(map[string][]Operation)
	for _, o := range l.ops {
		keys[o.Key] = append(keys[o.Key], o)
	}
	for _, ops := range keys {
		slices.SortStableFunc(ops, func(a, b Operation) int { return cmp.Compare(a.Call, b.Call) })
	}
	return keys
}

// Answered is how many of the operations say something about the store.
func Answered(ops []Operation) int {
	n := 0
	for i := range ops {
		if r := ops[i].Result; r != Unknown && r != Nothing {
			n++
		}
	}
	return n
}

// CountUnknown is how many of the operations have an unknown outcome.
func CountUnknown(ops []Operation) int {
	n := 0
	for i := range ops {
		if ops[i].Result == Unknown {
			n++
		}
	}
	return n
}

// forChecker gives operations the form of the checker. An operation of unknown outcome stays open until after all
// others: it may take effect at any time. One that never did comes last, where nobody sees its effect.
func forChecker(ops []Operation) []porcupine.Operation {
	ops = slices.Clone(ops)
	prepare(ops)
	_, end := span(ops)
	rows, blur := drawingRows(ops), blurOf(ops)
	out := make([]porcupine.Operation, len(ops))
	for i := range ops {
		o := &ops[i]
		o.end, o.blur = end, blur
		out[i] = porcupine.Operation{ClientId: rows[i], Input: o, Call: o.Call, Return: min(o.last(), end+1)}
	}
	return out
}

// prepare marks what an operation cannot tell by itself.
func prepare(ops []Operation) {
	refunds := make(map[string]bool)
	for i := range ops {
		if ops[i].Op == OpRefund {
			refunds[ops[i].Who] = true
		}
	}
	for i := range ops {
		ops[i].refunded = refunds[ops[i].Who]
	}
}

// span is from the first call to the last return.
func span(ops []Operation) (from, to int64) {
	for i, o := range ops {
		if i == 0 {
			from, to = o.Call, o.Return
		}
		from, to = min(from, o.Call), max(to, o.Return)
	}
	return from, to
}

// drawingRows gives each operation a row of the drawing: its client's, or one of its own
// below if the client's is still taken by an operation that is open.
func drawingRows(ops []Operation) []int {
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
