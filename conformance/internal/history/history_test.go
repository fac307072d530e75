package history

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

// The tests of the checker: histories that are written by hand, in milliseconds. Some must be refused.

const ms = int64(time.Millisecond)

// try, renew and unlock of a driver, from and to some millisecond.
func try(from, to int64, who string, token, ttl int64) Operation {
	return Operation{Op: OpTry, Who: who, Call: from * ms, Return: to * ms, Start: from * ms, Result: OK, Token: token, TTL: ttl * ms}
}

func renew(from, to int64, who string, token, ttl int64) Operation {
	o := try(from, to, who, token, ttl)
	o.Op = OpRenew
	return o
}

func told(op string, from, to int64, who string, r Result) Operation {
	return Operation{Op: op, Who: who, Call: from * ms, Return: to * ms, Result: r}
}

func shaken(o Operation) Operation {
	o.Shaken = true
	return o
}

type written struct {
	name string
	ok   bool
	ops  []Operation
}

func checkWritten(t *testing.T, h Heading, histories []written) {
	t.Helper()
	h.Schema = Schema
	for _, w := range histories {
		t.Run(w.name, func(t *testing.T) {
			for i := range w.ops {
				w.ops[i].Client = i
				w.ops[i].Key = "k"
				if err := w.ops[i].check(); err != nil {
					t.Fatal(err)
				}
			}
			var saved, drawing bytes.Buffer
			if err := Write(&saved, h, w.ops); err != nil {
				t.Fatal(err)
			}
			err := CheckSaved(&saved, 10*time.Second, &drawing)
			switch {
			case w.ok && err != nil:
				t.Errorf("%v, want it linearizable", err)
			case !w.ok && !errors.Is(err, ErrNotLinearizable):
				t.Errorf("%v, want it refused", err)
			}
			if drawn := drawing.Len() > 0; drawn != (h.Model != ModelHolds) {
				t.Errorf("drawn: %v", drawn)
			}
		})
	}
}

func TestHoldsModelOfLeases(t *testing.T) {
	checkWritten(t, Heading{Model: ModelHolds, Lapse: 50 * time.Millisecond}, []written{
		{"nothing", true, nil},
		{"one after the other", true, []Operation{try(0, 1, "a", 1, 100), told(OpUnlock, 2, 3, "a", OK), try(4, 5, "b", 2, 100)}},
		{"refused while held", true, []Operation{try(0, 1, "a", 1, 100), told(OpTry, 2, 3, "b", Locked)}},
		{"two holders", false, []Operation{try(0, 1, "a", 1, 100), try(2, 3, "b", 2, 100)}},
		{"two holders at the same time", false, []Operation{try(0, 5, "a", 1, 100), try(0, 5, "b", 2, 100)}},
		{"granted at the last instant of a lease", true, []Operation{try(0, 1, "a", 1, 100), try(80, 95, "b", 2, 100)}},
		{"granted before the end of a lease", false, []Operation{try(0, 1, "a", 1, 100), try(80, 94, "b", 2, 100)}},
		{"granted before the end of a lease that was renewed", false, []Operation{
			try(0, 1, "a", 1, 100), renew(50, 51, "a", 1, 100), try(98, 102, "b", 2, 100),
		}},
		{"renewed after another's grant", false, []Operation{try(0, 1, "a", 1, 100), try(98, 102, "b", 2, 100), renew(103, 104, "a", 1, 100)}},
		{"renewed long after its end", false, []Operation{try(0, 1, "a", 1, 100), renew(160, 161, "a", 1, 100)}},
		{"renewed a moment after its end", true, []Operation{try(0, 1, "a", 1, 100), renew(120, 121, "a", 1, 100)}},
		{"renewal that is refused too early", false, []Operation{try(0, 1, "a", 1, 100), told(OpRenew, 50, 51, "a", NotHeld)}},
		{"renewal that is refused at the end", true, []Operation{try(0, 1, "a", 1, 100), told(OpRenew, 90, 96, "a", NotHeld)}},
		{"refused without a holder", false, []Operation{told(OpTry, 0, 1, "a", Locked)}},
		{"refused long after the end of a lease", false, []Operation{try(0, 1, "a", 1, 100), told(OpTry, 160, 161, "b", Locked)}},
		{"refused for a lease that has ended for its holder", true, []Operation{
			try(0, 1, "a", 1, 100), told(OpRenew, 96, 98, "a", NotHeld), told(OpTry, 110, 111, "b", Locked), try(120, 121, "b", 2, 100),
		}},
		{"refused for long for a lease that has ended for its holder", false, []Operation{
			try(0, 1, "a", 1, 100), told(OpRenew, 96, 98, "a", NotHeld), told(OpTry, 160, 161, "b", Locked),
		}},
		{"refused for a lease that was succeeded and given back", false, []Operation{
			try(0, 1, "a", 1, 100), told(OpRenew, 96, 98, "a", NotHeld), try(99, 100, "b", 2, 100), told(OpUnlock, 101, 102, "b", OK), told(OpTry, 110, 111, "c", Locked),
		}},
		{"refused beside another that was refused", true, []Operation{told(OpTry, 0, 9, "a", Locked), told(OpTry, 5, 6, "b", Locked)}},
		{"token repeated", false, []Operation{try(0, 1, "a", 1, 100), told(OpUnlock, 2, 3, "a", OK), try(4, 5, "b", 1, 100)}},
		{"token smaller", false, []Operation{try(0, 1, "a", 7, 100), told(OpUnlock, 2, 3, "a", OK), try(4, 5, "b", 6, 100)}},
		{"tokens in the order of grants that overlap", true, []Operation{
			try(0, 9, "b", 2, 100), try(1, 8, "a", 1, 100), told(OpUnlock, 2, 7, "a", OK),
		}},
		{"repeated TryLock", true, []Operation{try(0, 1, "a", 1, 100), try(2, 3, "a", 1, 100), told(OpTry, 4, 5, "b", Locked)}},
		{"repeated TryLock with another token", false, []Operation{try(0, 1, "a", 1, 100), try(2, 3, "a", 2, 100)}},
		{"repeated TryLock after the end is a fresh one", true, []Operation{try(0, 1, "a", 1, 100), try(101, 102, "a", 2, 100)}},
		{"repeated TryLock refused", false, []Operation{try(0, 1, "a", 1, 100), told(OpTry, 2, 3, "a", Locked)}},
		{"repeated TryLock that shortens", false, []Operation{try(0, 1, "a", 1, 100), try(2, 3, "a", 1, 20), try(30, 31, "b", 2, 100)}},
		{"renewal with another token", false, []Operation{try(0, 1, "a", 1, 100), renew(2, 3, "a", 2, 100)}},
		{"renewal that creates", false, []Operation{renew(2, 3, "a", 2, 100)}},
		{"unlock of a stale id frees", false, []Operation{
			try(0, 1, "a", 1, 100), told(OpUnlock, 2, 3, "a", OK), try(4, 5, "b", 2, 100),
			told(OpUnlock, 6, 7, "a", NotHeld), try(8, 9, "c", 3, 100),
		}},
		{"unlock by a stranger", false, []Operation{try(0, 1, "a", 1, 100), told(OpUnlock, 2, 3, "b", OK)}},
		{"unlock twice", false, []Operation{try(0, 1, "a", 1, 100), told(OpUnlock, 2, 3, "a", OK), told(OpUnlock, 4, 5, "a", OK)}},
		{"unlock that was lost and repeated", true, []Operation{
			try(0, 1, "a", 1, 100), told(OpUnlock, 2, 3, "a", Unknown), told(OpUnlock, 4, 5, "a", NotHeld), try(6, 7, "b", 2, 100),
		}},
		{"unlock that was lost and never took effect", true, []Operation{
			try(0, 1, "a", 1, 100), told(OpUnlock, 2, 3, "a", Unknown), renew(4, 5, "a", 1, 100), told(OpTry, 6, 7, "b", Locked),
		}},
		{"unlock that was lost and took effect late", true, []Operation{
			try(0, 1, "a", 1, 100), told(OpUnlock, 2, 3, "a", Unknown), renew(4, 5, "a", 1, 100), try(6, 7, "b", 2, 100),
			told(OpRenew, 8, 9, "a", NotHeld),
		}},
		{"unlock sent twice by the library", true, []Operation{
			try(0, 1, "a", 1, 100), shaken(told(OpUnlock, 2, 3, "a", NotHeld)), try(4, 5, "b", 2, 100),
		}},
		{"grant whose reply was lost bars others", true, []Operation{told(OpTry, 0, 1, "a", Unknown), told(OpTry, 9, 10, "b", Locked)}},
		{"grant whose reply was lost took effect late", true, []Operation{
			told(OpTry, 0, 1, "a", Unknown), try(2, 3, "b", 1, 100), told(OpUnlock, 4, 5, "b", OK),
			told(OpTry, 6, 7, "c", Locked), told(OpUnlock, 8, 9, "a", OK),
		}},
		{"grant whose reply was lost is found again", true, []Operation{
			try(0, 1, "a", 1, 10), told(OpUnlock, 2, 3, "a", OK), told(OpTry, 4, 5, "b", Unknown), try(6, 7, "b", 2, 100), told(OpTry, 8, 9, "c", Locked),
		}},
		{"grant whose reply was lost is no way round a lease", false, []Operation{
			try(0, 1, "a", 1, 100), told(OpTry, 2, 3, "b", Unknown), try(4, 5, "c", 3, 100),
		}},
		{"grant whose reply was lost does not lower tokens", false, []Operation{
			try(0, 1, "a", 5, 100), told(OpUnlock, 2, 3, "a", OK), told(OpTry, 4, 5, "b", Unknown), try(6, 7, "b", 5, 100),
		}},
		{"waiter that was withdrawn", true, []Operation{
			try(0, 1, "a", 1, 100), told(OpTry, 2, 3, "b", Unknown), told(OpUnlock, 4, 5, "b", OK), renew(6, 7, "a", 1, 100),
		}},
		{"call that was never made", true, []Operation{try(0, 1, "a", 1, 100), told(OpUnlock, 2, 3, "a", Nothing), renew(4, 5, "a", 1, 100)}},
	})
}

// Lapsed leases bar nobody for ever, unless that is not known.
func TestHoldsModelOfLeasesWithoutBound(t *testing.T) {
	checkWritten(t, Heading{Model: ModelHolds}, []written{
		{"refused long after the end of a lease", true, []Operation{try(0, 1, "a", 1, 100), told(OpTry, 9000, 9001, "b", Locked)}},
		{"two holders", false, []Operation{try(0, 1, "a", 1, 100), try(2, 3, "b", 2, 100)}},
	})
}

// owned is an operation of an owner at a Client.
func owned(op string, from, to int64, who string, r Result, token int64) Operation {
	return Operation{Op: op, Who: who, Call: from * ms, Return: to * ms, Result: r, Token: token}
}

func TestOwnersModel(t *testing.T) {
	checkWritten(t, Heading{Model: ModelOwners}, []written{
		{"one after the other", true, []Operation{
			owned(OpLock, 0, 1, "a", OK, 1), owned(OpCheck, 2, 3, "a", OK, 1), owned(OpUnlock, 4, 6, "a", OK, 1), owned(OpLock, 0, 5, "b", OK, 2),
		}},
		{"entered again", true, []Operation{
			owned(OpLock, 0, 1, "a", OK, 1), owned(OpLock, 2, 3, "a", OK, 1), owned(OpUnlock, 4, 5, "a", OK, 1),
			owned(OpCheck, 6, 7, "a", OK, 1), owned(OpUnlock, 8, 9, "a", OK, 1), owned(OpLock, 10, 11, "b", OK, 2),
		}},
		{"the inner unlock frees", false, []Operation{
			owned(OpLock, 0, 1, "a", OK, 1), owned(OpLock, 2, 3, "a", OK, 1), owned(OpUnlock, 4, 5, "a", OK, 1),
			owned(OpLock, 6, 7, "b", OK, 2), owned(OpCheck, 8, 9, "a", OK, 1),
		}},
		{"unlocked more often than entered", false, []Operation{
			owned(OpLock, 0, 1, "a", OK, 1), owned(OpUnlock, 2, 3, "a", OK, 1), owned(OpUnlock, 4, 5, "a", OK, 1),
		}},
		{"another token for each entry", false, []Operation{
			owned(OpLock, 0, 1, "a", OK, 1), owned(OpLock, 2, 3, "a", OK, 2), owned(OpCheck, 4, 5, "a", OK, 1),
		}},
		{"begun anew while handles are open", false, []Operation{
			owned(OpLock, 0, 1, "a", OK, 1), owned(OpLock, 2, 3, "a", OK, 2), owned(OpUnlock, 4, 5, "a", Lost, 1),
		}},
		{"two who know that they hold", false, []Operation{
			owned(OpLock, 0, 1, "a", OK, 1), owned(OpLock, 2, 3, "b", OK, 2), owned(OpCheck, 4, 5, "a", OK, 1),
		}},
		{"lost before another was granted", true, []Operation{
			owned(OpLock, 0, 1, "a", OK, 1), owned(OpLock, 2, 3, "b", OK, 2), owned(OpCheck, 4, 5, "a", Lost, 1), owned(OpUnlock, 6, 7, "a", Lost, 1),
		}},
		{"unlock that hides the loss", false, []Operation{
			owned(OpLock, 0, 1, "a", OK, 1), owned(OpLock, 2, 3, "b", OK, 2), owned(OpUnlock, 4, 5, "a", OK, 1),
		}},
		{"held again after a loss", false, []Operation{
			owned(OpLock, 0, 1, "a", OK, 1), owned(OpCheck, 2, 3, "a", Lost, 1), owned(OpCheck, 4, 5, "a", OK, 1),
		}},
		{"entered again after a loss", true, []Operation{
			owned(OpLock, 0, 1, "a", OK, 1), owned(OpLock, 2, 3, "b", OK, 2), owned(OpLock, 4, 5, "a", Lost, 0), owned(OpCheck, 6, 7, "b", OK, 2),
		}},
		{"token repeated by the next holder", false, []Operation{
			owned(OpLock, 0, 1, "a", OK, 4), owned(OpUnlock, 2, 3, "a", OK, 4), owned(OpLock, 4, 5, "b", OK, 4),
		}},
		{"unlock that was not confirmed", true, []Operation{
			owned(OpLock, 0, 1, "a", OK, 1), owned(OpUnlock, 2, 3, "a", Unconfirmed, 1), owned(OpTry, 4, 5, "b", Locked, 0), owned(OpLock, 6, 7, "b", OK, 2),
		}},
		{"open handle that is told it was unlocked", false, []Operation{owned(OpLock, 0, 1, "a", OK, 1), owned(OpCheck, 2, 3, "a", NotHeld, 1)}},
	})
}

// taken is a Take: from and to, what was asked, what was granted and left.
func taken(from, to int64, id string, least, n, granted, left int) Operation {
	return Operation{Op: OpTake, Who: id, Call: from * ms, Return: to * ms, Result: OK, Min: least, N: n, Granted: granted, Remaining: left}
}

func lost(o Operation) Operation {
	o.Result, o.Granted, o.Remaining = Unknown, 0, 0
	return o
}

func refund(from, to int64, id string, n int) Operation {
	return Operation{Op: OpRefund, Who: id, Call: from * ms, Return: to * ms, Result: OK, N: n}
}

func TestCounterModel(t *testing.T) {
	window := Heading{Model: ModelCounter, Limit: driver.Limit{Rate: 10, Per: Year, Algorithm: driver.FixedWindow}}
	bucket := Heading{Model: ModelCounter, Limit: driver.Limit{Rate: 1, Per: Year, Burst: 10, Algorithm: driver.TokenBucket}}
	checkWritten(t, window, []written{
		{"to the limit", true, []Operation{taken(0, 1, "a", 6, 6, 6, 4), taken(2, 3, "b", 6, 6, 0, 4), taken(4, 5, "c", 1, 6, 4, 0), taken(6, 7, "", 0, 0, 0, 0)}},
		{"over the limit", false, []Operation{taken(0, 1, "a", 6, 6, 6, 4), taken(2, 3, "b", 5, 5, 5, 0)}},
		{"over the limit, at the same time", false, []Operation{taken(0, 9, "a", 6, 6, 6, 4), taken(0, 9, "b", 6, 6, 6, 4)}},
		{"in either order, at the same time", true, []Operation{taken(0, 9, "a", 6, 6, 6, 0), taken(0, 9, "b", 4, 4, 4, 6)}},
		{"denied too early", false, []Operation{taken(0, 1, "a", 6, 6, 6, 4), taken(2, 3, "b", 4, 4, 0, 4)}},
		{"denial that debits", false, []Operation{taken(0, 1, "a", 6, 6, 6, 4), taken(2, 3, "b", 6, 6, 0, 4), taken(4, 5, "c", 4, 4, 0, 0)}},
		{"less than there is", false, []Operation{taken(0, 1, "a", 1, 6, 5, 5)}},
		{"wrong rest", false, []Operation{taken(0, 1, "a", 6, 6, 6, 5)}},
		{"refund", true, []Operation{taken(0, 1, "a", 6, 6, 6, 4), refund(2, 3, "a", 2), taken(4, 5, "", 0, 0, 0, 6)}},
		{"refund of more than was granted", true, []Operation{taken(0, 1, "a", 6, 6, 6, 4), refund(2, 3, "a", 99), taken(4, 5, "", 0, 0, 0, 10)}},
		{"refund that mints", false, []Operation{taken(0, 1, "a", 6, 6, 6, 4), taken(0, 1, "b", 4, 4, 4, 0), refund(2, 3, "a", 99), taken(4, 5, "", 1, 10, 10, 0)}},
		{"refund given once", true, []Operation{taken(0, 1, "a", 6, 6, 6, 4), refund(2, 3, "a", 2), refund(2, 3, "a", 2), taken(4, 5, "", 0, 0, 0, 6)}},
		{"refund given twice", false, []Operation{taken(0, 1, "a", 6, 6, 6, 4), refund(2, 3, "a", 2), refund(4, 5, "a", 2), taken(6, 7, "", 0, 0, 0, 8)}},
		{"refund of a stranger's", false, []Operation{taken(0, 1, "a", 6, 6, 6, 4), refund(2, 3, "b", 2), taken(6, 7, "", 0, 0, 0, 6)}},
		{"reset", true, []Operation{taken(0, 1, "a", 6, 6, 6, 4), told(OpReset, 2, 3, "", OK), refund(4, 5, "a", 6), taken(6, 7, "", 0, 0, 0, 10)}},
		{"lost reply, spent", true, []Operation{lost(taken(0, 1, "a", 6, 6, 0, 0)), taken(2, 3, "b", 6, 6, 0, 4)}},
		{"lost reply, never applied", true, []Operation{lost(taken(0, 1, "a", 6, 6, 0, 0)), taken(2, 3, "b", 6, 6, 6, 4)}},
		{"lost reply, applied late", true, []Operation{lost(taken(0, 1, "a", 6, 6, 0, 0)), taken(2, 3, "b", 4, 4, 4, 6), taken(4, 5, "c", 1, 1, 0, 0)}},
		{"lost reply, given back", true, []Operation{lost(taken(0, 1, "a", 6, 6, 0, 0)), refund(2, 3, "a", 6), taken(4, 5, "b", 10, 10, 10, 0)}},
		{"lost reply, spent twice", false, []Operation{lost(taken(0, 1, "a", 3, 3, 0, 0)), taken(2, 3, "b", 1, 1, 1, 3)}},
		{"lost reply, granted twice", false, []Operation{
			lost(taken(0, 1, "a", 6, 6, 0, 0)), taken(2, 3, "b", 4, 4, 4, 0), taken(4, 5, "c", 6, 6, 6, 0),
		}},
		{"sent twice by the library", true, []Operation{shaken(taken(0, 1, "a", 3, 3, 3, 4)), taken(2, 3, "b", 4, 4, 4, 0)}},
		{"sent twice by the library, both replies lost", true, []Operation{shaken(lost(taken(0, 1, "a", 3, 3, 0, 0))), taken(2, 3, "b", 1, 1, 1, 3)}},
		{"sent three times by the library, all replies lost", false, []Operation{shaken(lost(taken(0, 1, "a", 3, 3, 0, 0))), taken(2, 3, "b", 1, 1, 1, 0)}},
		{"sent three times by the library", false, []Operation{shaken(taken(0, 1, "a", 3, 3, 3, 1))}},
		{"never made", true, []Operation{taken(0, 1, "a", 6, 6, 6, 4), told(OpReset, 2, 3, "", Nothing), taken(4, 5, "b", 0, 0, 0, 4)}},
	})
	checkWritten(t, bucket, []written{
		{"a bucket's refund gives nothing back", true, []Operation{taken(0, 1, "a", 6, 6, 6, 4), refund(2, 3, "a", 6), taken(4, 5, "", 0, 0, 0, 4)}},
		{"a bucket's refund gives back", false, []Operation{taken(0, 1, "a", 6, 6, 6, 4), refund(2, 3, "a", 6), taken(4, 5, "", 0, 0, 0, 10)}},
	})
}

// after adds the times until the next permit and until all are back.
func after(o Operation, retry, reset int64) Operation {
	o.RetryAfter, o.ResetAfter = retry*ms, reset*ms
	return o
}

func TestMovingModels(t *testing.T) {
	bucket := Heading{Model: ModelMoving, Limit: driver.Limit{Rate: 10, Per: time.Second, Burst: 3}}
	checkWritten(t, bucket, []written{
		{"burst and refill", true, []Operation{taken(0, 1, "a", 3, 3, 3, 0), taken(105, 106, "b", 1, 1, 1, 0), taken(310, 311, "c", 2, 2, 2, 0)}},
		{"over the burst", false, []Operation{taken(0, 1, "a", 3, 3, 3, 0), taken(20, 21, "b", 1, 1, 1, 0)}},
		{"clocks as far apart as a slow call explains", true, []Operation{taken(0, 60, "a", 3, 3, 3, 0), taken(100, 101, "b", 1, 1, 1, 0), taken(165, 166, "c", 1, 1, 1, 0), after(taken(166, 167, "d", 1, 1, 0, 0), 100, 300)}},
		{"clocks further apart than any call explains", false, []Operation{taken(0, 1, "a", 3, 3, 3, 0), taken(100, 101, "b", 1, 1, 1, 0), taken(165, 166, "c", 1, 1, 1, 0), after(taken(166, 167, "d", 1, 1, 0, 0), 100, 300)}},
		{"refill that is too fast", false, []Operation{taken(0, 1, "a", 3, 3, 3, 0), taken(150, 151, "b", 2, 2, 2, 0)}},
		{"more than the burst after a rest", false, []Operation{taken(0, 1, "a", 1, 1, 1, 2), taken(900, 901, "b", 3, 3, 3, 1)}},
		{"denied too long", false, []Operation{taken(0, 1, "a", 3, 3, 3, 0), after(taken(150, 151, "b", 1, 1, 0, 0), 50, 0)}},
		{"denied with the right time", true, []Operation{taken(0, 1, "a", 3, 3, 3, 0), after(taken(40, 41, "b", 1, 1, 0, 0), 60, 0)}},
		{"denied with too short a time", false, []Operation{taken(0, 1, "a", 3, 3, 3, 0), after(taken(40, 41, "b", 1, 1, 0, 0), 30, 0)}},
		{"granted less than there is", false, []Operation{taken(0, 1, "a", 1, 3, 2, 1)}},
		{"granted more than was asked", false, []Operation{taken(0, 1, "a", 1, 1, 2, 1)}},
		{"at the moment of the refill, either way", true, []Operation{
			taken(0, 1, "a", 3, 3, 3, 0), after(taken(98, 103, "b", 1, 1, 0, 0), 1, 0), taken(99, 104, "c", 1, 1, 1, 0),
		}},
		{"lost reply may have been granted", true, []Operation{lost(taken(0, 1, "a", 3, 3, 0, 0)), after(taken(2, 3, "b", 3, 3, 0, 0), 300, 300)}},
		{"lost reply may have been denied", true, []Operation{lost(taken(0, 1, "a", 3, 3, 0, 0)), taken(2, 3, "b", 3, 3, 3, 0)}},
	})
	sliding := Heading{Model: ModelMoving, Limit: driver.Limit{Rate: 3, Per: 100 * time.Millisecond, Algorithm: driver.SlidingWindow}}
	checkWritten(t, sliding, []written{
		{"full, and again a period later", true, []Operation{taken(0, 1, "a", 3, 3, 3, 0), taken(50, 51, "b", 1, 1, 0, 0), taken(120, 121, "c", 3, 3, 3, 0)}},
		{"over the rate within a period", false, []Operation{taken(0, 1, "a", 2, 2, 2, 1), taken(80, 81, "b", 2, 2, 2, 0)}},
		{"straddling windows", false, []Operation{taken(90, 91, "a", 3, 3, 3, 0), taken(110, 111, "b", 3, 3, 3, 0)}},
		{"denied for longer than a period", false, []Operation{taken(0, 1, "a", 3, 3, 3, 0), taken(120, 121, "b", 1, 1, 0, 0)}},
		{"too much left", false, []Operation{taken(0, 1, "a", 2, 2, 2, 2)}},
		{"too little left", false, []Operation{taken(0, 1, "a", 2, 2, 2, 0)}},
		{"lost reply", true, []Operation{lost(taken(0, 1, "a", 2, 2, 0, 0)), taken(2, 3, "b", 2, 2, 0, 1)}},
		{"lost reply is no licence", false, []Operation{lost(taken(0, 1, "a", 2, 2, 0, 0)), taken(2, 3, "b", 3, 3, 3, 0), taken(4, 5, "b", 1, 1, 1, 0)}},
	})
	sliding.Skewed = true
	checkWritten(t, sliding, []written{
		{"clocks of clients deny for longer", true, []Operation{taken(0, 1, "a", 3, 3, 3, 0), taken(120, 121, "b", 1, 1, 0, 0)}},
		{"clocks of clients grant no more", false, []Operation{taken(0, 1, "a", 2, 2, 2, 1), taken(80, 81, "b", 2, 2, 2, 0)}},
	})
	fixed := Heading{Model: ModelMoving, Limit: driver.Limit{Rate: 3, Per: 100 * time.Millisecond, Algorithm: driver.FixedWindow}}
	checkWritten(t, fixed, []written{
		{"two windows", true, []Operation{
			after(taken(60, 61, "a", 3, 3, 3, 0), 0, 40), after(taken(80, 81, "b", 1, 1, 0, 0), 20, 20), after(taken(110, 111, "c", 3, 3, 3, 0), 0, 90),
		}},
		{"over the rate of a window", false, []Operation{after(taken(60, 61, "a", 3, 3, 3, 0), 0, 40), after(taken(80, 81, "b", 1, 1, 1, 2), 0, 20)}},
		{"a window that begins with its first use", false, []Operation{after(taken(60, 61, "a", 3, 3, 3, 0), 0, 40), after(taken(130, 131, "c", 3, 3, 3, 0), 0, 100)}},
		{"a window that does not turn", false, []Operation{after(taken(60, 61, "a", 3, 3, 3, 0), 0, 40), after(taken(130, 131, "c", 1, 1, 0, 0), 70, 70)}},
		{"many windows later", true, []Operation{after(taken(60, 61, "a", 3, 3, 3, 0), 0, 40), after(taken(1130, 1131, "c", 1, 1, 1, 2), 0, 70)}},
		{"at the turn, in either window", true, []Operation{
			after(taken(60, 61, "a", 2, 2, 2, 1), 0, 40), after(taken(98, 103, "b", 1, 1, 1, 0), 0, 1), after(taken(98, 103, "c", 1, 1, 1, 2), 0, 99),
		}},
		{"lost reply many windows later", true, []Operation{
			after(taken(60, 61, "a", 3, 3, 3, 0), 0, 40), lost(taken(70, 71, "b", 2, 2, 0, 0)), after(taken(1130, 1131, "c", 2, 2, 0, 1), 70, 70),
		}},
		{"lost reply is no licence", false, []Operation{
			lost(taken(0, 1, "a", 2, 2, 0, 0)), after(taken(20, 21, "b", 3, 3, 3, 0), 0, 80), after(taken(30, 31, "c", 1, 1, 1, 0), 0, 70),
		}},
	})
}

func TestUndecidedHistoryIsTold(t *testing.T) {
	h := Heading{Schema: Schema, Model: ModelCounter, Limit: driver.Limit{Rate: 10, Per: Year}}
	var ops []Operation
	for i := range int64(2000) {
		ops = append(ops, lost(taken(i, i+1, fmt.Sprint(i), 1, 1, 0, 0)))
	}
	var saved bytes.Buffer
	if err := Write(&saved, h, append(ops, taken(3000, 3001, "a", 10, 10, 10, 0), taken(3002, 3003, "b", 10, 10, 10, 0))); err != nil {
		t.Fatal(err)
	}
	if err := CheckSaved(&saved, time.Millisecond, nil); err == nil || errors.Is(err, ErrNotLinearizable) || !strings.Contains(err.Error(), "not decided") {
		t.Errorf("%v, want that it was not decided", err)
	}
}

func TestUnreadableHistories(t *testing.T) {
	const head = `{"schema":1,"model":"owners"}` + "\n"
	for name, text := range map[string]string{
		"empty":             "",
		"no JSON":           "history",
		"another schema":    `{"schema":2,"model":"owners"}`,
		"unknown model":     `{"schema":1,"model":"mutex"}`,
		"unknown field":     head + `{"op":"try","colour":1}`,
		"negative duration": head + `{"op":"try","call_ns":5,"return_ns":4}`,
		"time out of range": head + `{"op":"try","call_ns":0,"return_ns":9223372036854775807}`,
		"negative client":   head + `{"op":"try","client":-1}`,
		"two keys":          head + `{"op":"try","key":"a"}` + "\n" + `{"op":"try","key":"b"}`,
		"cut off":           head + `{"op":"try"`,
		"negative permits":  head + `{"op":"take","n":-1}`,
		"bad limit":         `{"schema":1,"model":"moving","limit":{"Rate":-1}}`,
		"counter that ends": `{"schema":1,"model":"counter","limit":{"Rate":1,"Per":1000000000}}`,
		"negative lapse":    `{"schema":1,"model":"owners","lapse_ns":-1}`,
	} {
		if err := CheckSaved(strings.NewReader(text), time.Second, nil); err == nil || errors.Is(err, ErrNotLinearizable) {
			t.Errorf("%s: %v, want an error that says what is wrong", name, err)
		}
	}
}

func outcome(v Verdict) string {
	switch {
	case v.Err == nil:
		return "linearizable"
	case errors.Is(v.Err, ErrUndecided):
		return "undecided"
	}
	return "not linearizable"
}

// FuzzCheckHistory: whatever is read is decided, or refused, without a panic, and the same when it is written again.
func FuzzCheckHistory(f *testing.F) {
	add := func(h Heading, ops ...Operation) {
		h.Schema = Schema
		var b bytes.Buffer
		if err := Write(&b, h, ops); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	add(Heading{Model: ModelHolds, Lapse: time.Second}, try(0, 1, "a", 1, 100), told(OpUnlock, 2, 3, "a", Unknown), try(4, 5, "b", 2, 100))
	add(Heading{Model: ModelOwners}, owned(OpLock, 0, 1, "a", OK, 1), owned(OpCheck, 2, 3, "a", Lost, 1))
	add(Heading{Model: ModelCounter, Limit: driver.Limit{Rate: 10, Per: Year, Algorithm: driver.SlidingWindow}}, taken(0, 1, "a", 6, 6, 6, 4), refund(2, 3, "a", 1), shaken(lost(taken(4, 5, "b", 1, 1, 0, 0))))
	for _, l := range []driver.Limit{
		{Rate: 20, Per: time.Second, Burst: 5},
		{Rate: 10, Per: 400 * time.Millisecond, Algorithm: driver.SlidingWindow},
		{Rate: 6, Per: 300 * time.Millisecond, Algorithm: driver.FixedWindow},
	} {
		add(Heading{Model: ModelMoving, Limit: l}, after(taken(0, 1, "a", 1, 3, 3, 2), 0, 90), lost(taken(2, 300, "b", 1, 1, 0, 0)), after(taken(900, 901, "c", 1, 3, 0, 0), 5, 90))
	}
	f.Add([]byte(`{"schema":1,"model":"owners"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		head, ops, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		ops = ops[:min(len(ops), 12)]
		v, err := head.Check(ops, 50*time.Millisecond)
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := Write(&again, head, ops); err != nil {
			t.Fatal(err)
		}
		head, ops, err = Read(&again)
		if err != nil {
			t.Fatalf("what was written is refused: %v", err)
		}
		w, err := head.Check(ops, 50*time.Millisecond)
		if err != nil || outcome(v) != outcome(w) && outcome(v) != "undecided" && outcome(w) != "undecided" {
			t.Fatalf("%s, and %s, %v when read again", outcome(v), outcome(w), err)
		}
	})
}
