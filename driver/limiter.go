package driver

import (
	"context"
	"fmt"
	"time"
)

// Limiter is the limit half of a backend: permits counted against a [Limit].
//
// State belongs to the key, the algorithm and, for windows, the period, for token
// buckets the rate ([Limit.Shares]). A changed burst, or rate of a window, keeps the
// debt. The arithmetic is in package limits, once; an adapter either runs it or ports it and is proved equal by test.
type Limiter interface {
	// Take evaluates asks in order in one atomic step. A denied ask changes
	// nothing. Asks have been validated: 0 <= Min <= N <= l.Max().
	Take(ctx context.Context, key string, l Limit, asks []Ask) (Taken, error)
	// TakeOne is Take for a single ask without the slices, for stores so fast that the allocation shows. Others
	// make it of Take with [One].
	TakeOne(ctx context.Context, key string, l Limit, a Ask) (TakenOne, error)
	// TakeAll takes several demands in one atomic step, all or none, under the
	// claim [AtomicMulti]. Without it AllowAll is ErrUnsupported or best effort.
	TakeAll(ctx context.Context, demands []Demand) ([]Taken, error)
	// Reset forgets the state of key under l: full capacity again.
	Reset(ctx context.Context, key string, l Limit) error
	// Refund gives back n of what the request id was granted: at most once per id, at
	// most what it was granted, and never after the moment when the permits fell
	// due (token bucket) or left the window. What cannot be given back any more is
	// not an error. It is called under the claim [Reserve].
	Refund(ctx context.Context, key string, l Limit, id string, n int) error
	// Charge debits what a call turned out to cost, under the claim [Charge]: n permits in one atomic step,
	// whatever is left. Requests are denied until the debt is repaid. With n below 0 it gives -n permits
	// back, as far as so many are missing. n is from -MaxCharge to MaxCharge; with 0 nothing is written.
	//
	// An error that is not [Definite] says that the charge may have been made. An adapter never
	// repeats one that may have been.
	Charge(ctx context.Context, key string, l Limit, n int) (Charged, error)
}

// Ask is one request for permits.
type Ask struct {
	// ID names the request, so that what it was granted can be given back once
	// with Refund. "" cannot be refunded.
	ID string
	// Min and N: the grant g is the most that fits, with Min <= g <= N, or
	// nothing. N = 0 peeks: nothing is written, no expiry extended.
	Min, N int
	// MaxDelay lets a token bucket grant permits that are due up to this far
	// ahead. Windows answer ErrUnsupported to a MaxDelay above zero.
	MaxDelay time.Duration
}

// Granted answers one [Ask].
type Granted struct {
	// N permits were granted and debited; 0 is a denial.
	N int
	// Delay is how long to wait before using them, at most Ask.MaxDelay.
	Delay time.Duration
	// RetryAfter, after a denial: with no other writer, the same ask (a peek:
	// one permit) is granted after it and not a millisecond before. With a
	// MaxDelay that is by as much earlier than the permits are there. It is 0
	// after a grant.
	RetryAfter time.Duration
	// ValidFor is how long after the call was sent the permits may be spent
	// without breaking the bound. Only a lessee of permits needs it. It is
	// zero after a denial.
	ValidFor time.Duration
}

// Taken answers Take.
type Taken struct {
	// Asks has one answer per ask, in order.
	Asks []Granted
	// Remaining permits after all requests, available at once.
	Remaining int
	// ResetAfter is how long until the full capacity is back, given no
	// further asks.
	ResetAfter time.Duration
}

// TakenOne answers TakeOne.
type TakenOne struct {
	Granted
	Remaining  int
	ResetAfter time.Duration
}

// One makes the answer of TakeOne of that of Take.
func One(t Taken, err error) (TakenOne, error) {
	switch {
	case err != nil:
		return TakenOne{}, err
	case len(t.Asks) != 1:
		return TakenOne{}, fmt.Errorf("%d answers to one ask", len(t.Asks))
	}
	return TakenOne{t.Asks[0], t.Remaining, t.ResetAfter}, nil
}

// Demand is one part of an AllowAll: n permits of a limit on a key.
type Demand struct {
	Key   string
	Limit Limit
	N     int
}

// MaxCharge is the most permits that one Charge debits, or gives back.
const MaxCharge = MaxRate

// Charged answers Charge: what a peek right after it would see.
type Charged struct {
	// Remaining permits, available at once.
	Remaining int
	// RetryAfter is how long until one permit is there, given no further asks; 0 if there is one.
	RetryAfter time.Duration
	// ResetAfter is how long until the full capacity is back, given no further asks.
	ResetAfter time.Duration
}
