package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

// The tests of the checker: histories that are written by hand, in milliseconds, some
// of which must be refused.

const ms = int64(time.Millisecond)

// try, renew and unlock of a driver, from and to some millisecond.
func try(from, to int64, who string, token, ttl int64) operation {
	return operation{Op: opTry, Who: who, Call: from * ms, Return: to * ms, Start: from * ms, Result: resOK, Token: token, TTL: ttl * ms}
}

func renew(from, to int64, who string, token, ttl int64) operation {
	o := try(from, to, who, token, ttl)
	o.Op = opRenew
	return o
}

func told(op string, from, to int64, who string, r result) operation {
	return operation{Op: op, Who: who, Call: from * ms, Return: to * ms, Result: r}
}

func shaken(o operation) operation {
	o.Shaken = true
	return o
}

type written struct {
	name string
	ok   bool
	ops  []operation
}

func checkWritten(t *testing.T, h heading, histories []written) {
	t.Helper()
	h.Schema = historySchema
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
			if err := writeHistory(&saved, h, w.ops); err != nil {
				t.Fatal(err)
			}
			err := CheckHistory(&saved, 10*time.Second, &drawing)
			switch {
			case w.ok && err != nil:
				t.Errorf("%v, want it linearizable", err)
			case !w.ok && !errors.Is(err, ErrNotLinearizable):
				t.Errorf("%v, want it refused", err)
			}
			if drawing.Len() == 0 {
				t.Error("it was not drawn")
			}
		})
	}
}

func TestLeaseModel(t *testing.T) {
	checkWritten(t, heading{Model: modelLease, Lapse: 50 * time.Millisecond}, []written{
		{"nothing", true, nil},
		{"one after the other", true, []operation{try(0, 1, "a", 1, 100), told(opUnlock, 2, 3, "a", resOK), try(4, 5, "b", 2, 100)}},
		{"refused while held", true, []operation{try(0, 1, "a", 1, 100), told(opTry, 2, 3, "b", resLocked)}},
		{"two holders", false, []operation{try(0, 1, "a", 1, 100), try(2, 3, "b", 2, 100)}},
		{"two holders at the same time", false, []operation{try(0, 5, "a", 1, 100), try(0, 5, "b", 2, 100)}},
		{"granted at the last instant of a lease", true, []operation{try(0, 1, "a", 1, 100), try(80, 95, "b", 2, 100)}},
		{"granted before the end of a lease", false, []operation{try(0, 1, "a", 1, 100), try(80, 94, "b", 2, 100)}},
		{"granted before the end of a lease that was renewed", false, []operation{
			try(0, 1, "a", 1, 100), renew(50, 51, "a", 1, 100), try(98, 102, "b", 2, 100),
		}},
		{"renewed after another's grant", false, []operation{try(0, 1, "a", 1, 100), try(98, 102, "b", 2, 100), renew(103, 104, "a", 1, 100)}},
		{"renewed long after its end", false, []operation{try(0, 1, "a", 1, 100), renew(160, 161, "a", 1, 100)}},
		{"renewed a moment after its end", true, []operation{try(0, 1, "a", 1, 100), renew(120, 121, "a", 1, 100)}},
		{"renewal that is refused too early", false, []operation{try(0, 1, "a", 1, 100), told(opRenew, 50, 51, "a", resNotHeld)}},
		{"renewal that is refused at the end", true, []operation{try(0, 1, "a", 1, 100), told(opRenew, 90, 96, "a", resNotHeld)}},
		{"refused without a holder", false, []operation{told(opTry, 0, 1, "a", resLocked)}},
		{"refused long after the end of a lease", false, []operation{try(0, 1, "a", 1, 100), told(opTry, 160, 161, "b", resLocked)}},
		{"refused for a lease that has ended for its holder", true, []operation{
			try(0, 1, "a", 1, 100), told(opRenew, 96, 98, "a", resNotHeld), told(opTry, 110, 111, "b", resLocked), try(120, 121, "b", 2, 100),
		}},
		{"refused for long for a lease that has ended for its holder", false, []operation{
			try(0, 1, "a", 1, 100), told(opRenew, 96, 98, "a", resNotHeld), told(opTry, 160, 161, "b", resLocked),
		}},
		{"refused for a lease that was succeeded and given back", false, []operation{
			try(0, 1, "a", 1, 100), told(opRenew, 96, 98, "a", resNotHeld), try(99, 100, "b", 2, 100), told(opUnlock, 101, 102, "b", resOK), told(opTry, 110, 111, "c", resLocked),
		}},
		{"refused beside another that was refused", true, []operation{told(opTry, 0, 9, "a", resLocked), told(opTry, 5, 6, "b", resLocked)}},
		{"token repeated", false, []operation{try(0, 1, "a", 1, 100), told(opUnlock, 2, 3, "a", resOK), try(4, 5, "b", 1, 100)}},
		{"token smaller", false, []operation{try(0, 1, "a", 7, 100), told(opUnlock, 2, 3, "a", resOK), try(4, 5, "b", 6, 100)}},
		{"tokens in the order of grants that overlap", true, []operation{
			try(0, 9, "b", 2, 100), try(1, 8, "a", 1, 100), told(opUnlock, 2, 7, "a", resOK),
		}},
		{"repeated TryLock", true, []operation{try(0, 1, "a", 1, 100), try(2, 3, "a", 1, 100), told(opTry, 4, 5, "b", resLocked)}},
		{"repeated TryLock with another token", false, []operation{try(0, 1, "a", 1, 100), try(2, 3, "a", 2, 100)}},
		{"repeated TryLock after the end is a fresh one", true, []operation{try(0, 1, "a", 1, 100), try(101, 102, "a", 2, 100)}},
		{"repeated TryLock refused", false, []operation{try(0, 1, "a", 1, 100), told(opTry, 2, 3, "a", resLocked)}},
		{"repeated TryLock that shortens", false, []operation{try(0, 1, "a", 1, 100), try(2, 3, "a", 1, 20), try(30, 31, "b", 2, 100)}},
		{"renewal with another token", false, []operation{try(0, 1, "a", 1, 100), renew(2, 3, "a", 2, 100)}},
		{"renewal that creates", false, []operation{renew(2, 3, "a", 2, 100)}},
		{"unlock of a stale id frees", false, []operation{
			try(0, 1, "a", 1, 100), told(opUnlock, 2, 3, "a", resOK), try(4, 5, "b", 2, 100),
			told(opUnlock, 6, 7, "a", resNotHeld), try(8, 9, "c", 3, 100),
		}},
		{"unlock by a stranger", false, []operation{try(0, 1, "a", 1, 100), told(opUnlock, 2, 3, "b", resOK)}},
		{"unlock twice", false, []operation{try(0, 1, "a", 1, 100), told(opUnlock, 2, 3, "a", resOK), told(opUnlock, 4, 5, "a", resOK)}},
		{"unlock that was lost and repeated", true, []operation{
			try(0, 1, "a", 1, 100), told(opUnlock, 2, 3, "a", resUnknown), told(opUnlock, 4, 5, "a", resNotHeld), try(6, 7, "b", 2, 100),
		}},
		{"unlock that was lost and never took effect", true, []operation{
			try(0, 1, "a", 1, 100), told(opUnlock, 2, 3, "a", resUnknown), renew(4, 5, "a", 1, 100), told(opTry, 6, 7, "b", resLocked),
		}},
		{"unlock that was lost and took effect late", true, []operation{
			try(0, 1, "a", 1, 100), told(opUnlock, 2, 3, "a", resUnknown), renew(4, 5, "a", 1, 100), try(6, 7, "b", 2, 100),
			told(opRenew, 8, 9, "a", resNotHeld),
		}},
		{"unlock sent twice by the library", true, []operation{
			try(0, 1, "a", 1, 100), shaken(told(opUnlock, 2, 3, "a", resNotHeld)), try(4, 5, "b", 2, 100),
		}},
		{"grant whose reply was lost bars others", true, []operation{told(opTry, 0, 1, "a", resUnknown), told(opTry, 9, 10, "b", resLocked)}},
		{"grant whose reply was lost took effect late", true, []operation{
			told(opTry, 0, 1, "a", resUnknown), try(2, 3, "b", 1, 100), told(opUnlock, 4, 5, "b", resOK),
			told(opTry, 6, 7, "c", resLocked), told(opUnlock, 8, 9, "a", resOK),
		}},
		{"grant whose reply was lost is found again", true, []operation{
			try(0, 1, "a", 1, 10), told(opUnlock, 2, 3, "a", resOK), told(opTry, 4, 5, "b", resUnknown), try(6, 7, "b", 2, 100), told(opTry, 8, 9, "c", resLocked),
		}},
		{"grant whose reply was lost is no way round a lease", false, []operation{
			try(0, 1, "a", 1, 100), told(opTry, 2, 3, "b", resUnknown), try(4, 5, "c", 3, 100),
		}},
		{"grant whose reply was lost does not lower tokens", false, []operation{
			try(0, 1, "a", 5, 100), told(opUnlock, 2, 3, "a", resOK), told(opTry, 4, 5, "b", resUnknown), try(6, 7, "b", 5, 100),
		}},
		{"waiter that was withdrawn", true, []operation{
			try(0, 1, "a", 1, 100), told(opTry, 2, 3, "b", resUnknown), told(opUnlock, 4, 5, "b", resOK), renew(6, 7, "a", 1, 100),
		}},
		{"call that was never made", true, []operation{try(0, 1, "a", 1, 100), told(opUnlock, 2, 3, "a", resNothing), renew(4, 5, "a", 1, 100)}},
	})
}

// Lapsed leases bar nobody for ever, unless that is not known.
func TestLeaseModelWithoutBound(t *testing.T) {
	checkWritten(t, heading{Model: modelLease}, []written{
		{"refused long after the end of a lease", true, []operation{try(0, 1, "a", 1, 100), told(opTry, 9000, 9001, "b", resLocked)}},
		{"two holders", false, []operation{try(0, 1, "a", 1, 100), try(2, 3, "b", 2, 100)}},
	})
}

// owned is an operation of an owner at a Client.
func owned(op string, from, to int64, who string, r result, token int64) operation {
	return operation{Op: op, Who: who, Call: from * ms, Return: to * ms, Result: r, Token: token}
}

func TestOwnersModel(t *testing.T) {
	checkWritten(t, heading{Model: modelOwners}, []written{
		{"one after the other", true, []operation{
			owned(opLock, 0, 1, "a", resOK, 1), owned(opCheck, 2, 3, "a", resOK, 1), owned(opUnlock, 4, 6, "a", resOK, 1), owned(opLock, 0, 5, "b", resOK, 2),
		}},
		{"entered again", true, []operation{
			owned(opLock, 0, 1, "a", resOK, 1), owned(opLock, 2, 3, "a", resOK, 1), owned(opUnlock, 4, 5, "a", resOK, 1),
			owned(opCheck, 6, 7, "a", resOK, 1), owned(opUnlock, 8, 9, "a", resOK, 1), owned(opLock, 10, 11, "b", resOK, 2),
		}},
		{"the inner unlock frees", false, []operation{
			owned(opLock, 0, 1, "a", resOK, 1), owned(opLock, 2, 3, "a", resOK, 1), owned(opUnlock, 4, 5, "a", resOK, 1),
			owned(opLock, 6, 7, "b", resOK, 2), owned(opCheck, 8, 9, "a", resOK, 1),
		}},
		{"unlocked more often than entered", false, []operation{
			owned(opLock, 0, 1, "a", resOK, 1), owned(opUnlock, 2, 3, "a", resOK, 1), owned(opUnlock, 4, 5, "a", resOK, 1),
		}},
		{"another token for each entry", false, []operation{
			owned(opLock, 0, 1, "a", resOK, 1), owned(opLock, 2, 3, "a", resOK, 2), owned(opCheck, 4, 5, "a", resOK, 1),
		}},
		{"begun anew while handles are open", false, []operation{
			owned(opLock, 0, 1, "a", resOK, 1), owned(opLock, 2, 3, "a", resOK, 2), owned(opUnlock, 4, 5, "a", resLost, 1),
		}},
		{"two who know that they hold", false, []operation{
			owned(opLock, 0, 1, "a", resOK, 1), owned(opLock, 2, 3, "b", resOK, 2), owned(opCheck, 4, 5, "a", resOK, 1),
		}},
		{"lost before another was granted", true, []operation{
			owned(opLock, 0, 1, "a", resOK, 1), owned(opLock, 2, 3, "b", resOK, 2), owned(opCheck, 4, 5, "a", resLost, 1), owned(opUnlock, 6, 7, "a", resLost, 1),
		}},
		{"unlock that hides the loss", false, []operation{
			owned(opLock, 0, 1, "a", resOK, 1), owned(opLock, 2, 3, "b", resOK, 2), owned(opUnlock, 4, 5, "a", resOK, 1),
		}},
		{"held again after a loss", false, []operation{
			owned(opLock, 0, 1, "a", resOK, 1), owned(opCheck, 2, 3, "a", resLost, 1), owned(opCheck, 4, 5, "a", resOK, 1),
		}},
		{"entered again after a loss", true, []operation{
			owned(opLock, 0, 1, "a", resOK, 1), owned(opLock, 2, 3, "b", resOK, 2), owned(opLock, 4, 5, "a", resLost, 0), owned(opCheck, 6, 7, "b", resOK, 2),
		}},
		{"token repeated by the next holder", false, []operation{
			owned(opLock, 0, 1, "a", resOK, 4), owned(opUnlock, 2, 3, "a", resOK, 4), owned(opLock, 4, 5, "b", resOK, 4),
		}},
		{"unlock that was not confirmed", true, []operation{
			owned(opLock, 0, 1, "a", resOK, 1), owned(opUnlock, 2, 3, "a", resOver, 1), owned(opTry, 4, 5, "b", resLocked, 0), owned(opLock, 6, 7, "b", resOK, 2),
		}},
		{"open handle that is told it was unlocked", false, []operation{owned(opLock, 0, 1, "a", resOK, 1), owned(opCheck, 2, 3, "a", resNotHeld, 1)}},
	})
}

func TestFenceModel(t *testing.T) {
	write := func(from, to int64, r result, token int64) operation { return owned(opWrite, from, to, "", r, token) }
	checkWritten(t, heading{Model: modelFence}, []written{
		{"rising", true, []operation{write(0, 1, resOK, 1), write(2, 3, resOK, 1), write(4, 5, resOK, 9)}},
		{"stale write refused", true, []operation{write(0, 1, resOK, 2), write(2, 3, resRefused, 1)}},
		{"stale write taken", false, []operation{write(0, 1, resOK, 2), write(2, 3, resOK, 1)}},
		{"at the same time", true, []operation{write(0, 3, resOK, 2), write(0, 3, resOK, 1)}},
		{"newest refused", false, []operation{write(0, 1, resOK, 2), write(2, 3, resRefused, 2)}},
	})
}

// taken is a Take: from and to, what was asked, what was granted and left.
func taken(from, to int64, id string, least, n, granted, left int) operation {
	return operation{Op: opTake, Who: id, Call: from * ms, Return: to * ms, Result: resOK, Min: least, N: n, Granted: granted, Remaining: left}
}

func lost(o operation) operation {
	o.Result, o.Granted, o.Remaining = resUnknown, 0, 0
	return o
}

func refund(from, to int64, id string, n int) operation {
	return operation{Op: opRefund, Who: id, Call: from * ms, Return: to * ms, Result: resOK, N: n}
}

func TestCounterModel(t *testing.T) {
	all := still(10)
	window, bucket := heading{Model: modelCounter, Limit: all["fixed window"]}, heading{Model: modelCounter, Limit: all["token bucket"]}
	checkWritten(t, window, []written{
		{"to the limit", true, []operation{taken(0, 1, "a", 6, 6, 6, 4), taken(2, 3, "b", 6, 6, 0, 4), taken(4, 5, "c", 1, 6, 4, 0), taken(6, 7, "", 0, 0, 0, 0)}},
		{"over the limit", false, []operation{taken(0, 1, "a", 6, 6, 6, 4), taken(2, 3, "b", 5, 5, 5, 0)}},
		{"over the limit, at the same time", false, []operation{taken(0, 9, "a", 6, 6, 6, 4), taken(0, 9, "b", 6, 6, 6, 4)}},
		{"in either order, at the same time", true, []operation{taken(0, 9, "a", 6, 6, 6, 0), taken(0, 9, "b", 4, 4, 4, 6)}},
		{"denied too early", false, []operation{taken(0, 1, "a", 6, 6, 6, 4), taken(2, 3, "b", 4, 4, 0, 4)}},
		{"denial that debits", false, []operation{taken(0, 1, "a", 6, 6, 6, 4), taken(2, 3, "b", 6, 6, 0, 4), taken(4, 5, "c", 4, 4, 0, 0)}},
		{"less than there is", false, []operation{taken(0, 1, "a", 1, 6, 5, 5)}},
		{"wrong rest", false, []operation{taken(0, 1, "a", 6, 6, 6, 5)}},
		{"refund", true, []operation{taken(0, 1, "a", 6, 6, 6, 4), refund(2, 3, "a", 2), taken(4, 5, "", 0, 0, 0, 6)}},
		{"refund of more than was granted", true, []operation{taken(0, 1, "a", 6, 6, 6, 4), refund(2, 3, "a", 99), taken(4, 5, "", 0, 0, 0, 10)}},
		{"refund that mints", false, []operation{taken(0, 1, "a", 6, 6, 6, 4), taken(0, 1, "b", 4, 4, 4, 0), refund(2, 3, "a", 99), taken(4, 5, "", 1, 10, 10, 0)}},
		{"refund given once", true, []operation{taken(0, 1, "a", 6, 6, 6, 4), refund(2, 3, "a", 2), refund(2, 3, "a", 2), taken(4, 5, "", 0, 0, 0, 6)}},
		{"refund given twice", false, []operation{taken(0, 1, "a", 6, 6, 6, 4), refund(2, 3, "a", 2), refund(4, 5, "a", 2), taken(6, 7, "", 0, 0, 0, 8)}},
		{"refund of a stranger's", false, []operation{taken(0, 1, "a", 6, 6, 6, 4), refund(2, 3, "b", 2), taken(6, 7, "", 0, 0, 0, 6)}},
		{"reset", true, []operation{taken(0, 1, "a", 6, 6, 6, 4), told(opReset, 2, 3, "", resOK), refund(4, 5, "a", 6), taken(6, 7, "", 0, 0, 0, 10)}},
		{"lost reply, spent", true, []operation{lost(taken(0, 1, "a", 6, 6, 0, 0)), taken(2, 3, "b", 6, 6, 0, 4)}},
		{"lost reply, never applied", true, []operation{lost(taken(0, 1, "a", 6, 6, 0, 0)), taken(2, 3, "b", 6, 6, 6, 4)}},
		{"lost reply, applied late", true, []operation{lost(taken(0, 1, "a", 6, 6, 0, 0)), taken(2, 3, "b", 4, 4, 4, 6), taken(4, 5, "c", 1, 1, 0, 0)}},
		{"lost reply, given back", true, []operation{lost(taken(0, 1, "a", 6, 6, 0, 0)), refund(2, 3, "a", 6), taken(4, 5, "b", 10, 10, 10, 0)}},
		{"lost reply, spent twice", false, []operation{lost(taken(0, 1, "a", 3, 3, 0, 0)), taken(2, 3, "b", 1, 1, 1, 3)}},
		{"lost reply, granted twice", false, []operation{
			lost(taken(0, 1, "a", 6, 6, 0, 0)), taken(2, 3, "b", 4, 4, 4, 0), taken(4, 5, "c", 6, 6, 6, 0),
		}},
		{"sent twice by the library", true, []operation{shaken(taken(0, 1, "a", 3, 3, 3, 4)), taken(2, 3, "b", 4, 4, 4, 0)}},
		{"sent twice by the library, both replies lost", true, []operation{shaken(lost(taken(0, 1, "a", 3, 3, 0, 0))), taken(2, 3, "b", 1, 1, 1, 3)}},
		{"sent three times by the library, all replies lost", false, []operation{shaken(lost(taken(0, 1, "a", 3, 3, 0, 0))), taken(2, 3, "b", 1, 1, 1, 0)}},
		{"sent three times by the library", false, []operation{shaken(taken(0, 1, "a", 3, 3, 3, 1))}},
		{"never made", true, []operation{taken(0, 1, "a", 6, 6, 6, 4), told(opReset, 2, 3, "", resNothing), taken(4, 5, "b", 0, 0, 0, 4)}},
	})
	checkWritten(t, bucket, []written{
		{"a bucket's refund gives nothing back", true, []operation{taken(0, 1, "a", 6, 6, 6, 4), refund(2, 3, "a", 6), taken(4, 5, "", 0, 0, 0, 4)}},
		{"a bucket's refund gives back", false, []operation{taken(0, 1, "a", 6, 6, 6, 4), refund(2, 3, "a", 6), taken(4, 5, "", 0, 0, 0, 10)}},
	})
}

// after adds the times until the next permit and until all are back.
func after(o operation, retry, reset int64) operation {
	o.RetryAfter, o.ResetAfter = retry*ms, reset*ms
	return o
}

func TestMovingModels(t *testing.T) {
	bucket := heading{Model: modelMoving, Limit: driver.Limit{Rate: 10, Per: time.Second, Burst: 3}}
	checkWritten(t, bucket, []written{
		{"burst and refill", true, []operation{taken(0, 1, "a", 3, 3, 3, 0), taken(105, 106, "b", 1, 1, 1, 0), taken(310, 311, "c", 2, 2, 2, 0)}},
		{"over the burst", false, []operation{taken(0, 1, "a", 3, 3, 3, 0), taken(20, 21, "b", 1, 1, 1, 0)}},
		{"clocks as far apart as a slow call explains", true, []operation{taken(0, 60, "a", 3, 3, 3, 0), taken(100, 101, "b", 1, 1, 1, 0), taken(165, 166, "c", 1, 1, 1, 0), after(taken(166, 167, "d", 1, 1, 0, 0), 100, 300)}},
		{"clocks further apart than any call explains", false, []operation{taken(0, 1, "a", 3, 3, 3, 0), taken(100, 101, "b", 1, 1, 1, 0), taken(165, 166, "c", 1, 1, 1, 0), after(taken(166, 167, "d", 1, 1, 0, 0), 100, 300)}},
		{"refill that is too fast", false, []operation{taken(0, 1, "a", 3, 3, 3, 0), taken(150, 151, "b", 2, 2, 2, 0)}},
		{"more than the burst after a rest", false, []operation{taken(0, 1, "a", 1, 1, 1, 2), taken(900, 901, "b", 3, 3, 3, 1)}},
		{"denied too long", false, []operation{taken(0, 1, "a", 3, 3, 3, 0), after(taken(150, 151, "b", 1, 1, 0, 0), 50, 0)}},
		{"denied with the right time", true, []operation{taken(0, 1, "a", 3, 3, 3, 0), after(taken(40, 41, "b", 1, 1, 0, 0), 60, 0)}},
		{"denied with too short a time", false, []operation{taken(0, 1, "a", 3, 3, 3, 0), after(taken(40, 41, "b", 1, 1, 0, 0), 30, 0)}},
		{"granted less than there is", false, []operation{taken(0, 1, "a", 1, 3, 2, 1)}},
		{"granted more than was asked", false, []operation{taken(0, 1, "a", 1, 1, 2, 1)}},
		{"at the moment of the refill, either way", true, []operation{
			taken(0, 1, "a", 3, 3, 3, 0), after(taken(98, 103, "b", 1, 1, 0, 0), 1, 0), taken(99, 104, "c", 1, 1, 1, 0),
		}},
		{"lost reply may have been granted", true, []operation{lost(taken(0, 1, "a", 3, 3, 0, 0)), after(taken(2, 3, "b", 3, 3, 0, 0), 300, 300)}},
		{"lost reply may have been denied", true, []operation{lost(taken(0, 1, "a", 3, 3, 0, 0)), taken(2, 3, "b", 3, 3, 3, 0)}},
	})
	sliding := heading{Model: modelMoving, Limit: driver.Limit{Rate: 3, Per: 100 * time.Millisecond, Algorithm: driver.SlidingWindow}}
	checkWritten(t, sliding, []written{
		{"full, and again a period later", true, []operation{taken(0, 1, "a", 3, 3, 3, 0), taken(50, 51, "b", 1, 1, 0, 0), taken(120, 121, "c", 3, 3, 3, 0)}},
		{"over the rate within a period", false, []operation{taken(0, 1, "a", 2, 2, 2, 1), taken(80, 81, "b", 2, 2, 2, 0)}},
		{"straddling windows", false, []operation{taken(90, 91, "a", 3, 3, 3, 0), taken(110, 111, "b", 3, 3, 3, 0)}},
		{"denied for longer than a period", false, []operation{taken(0, 1, "a", 3, 3, 3, 0), taken(120, 121, "b", 1, 1, 0, 0)}},
		{"too much left", false, []operation{taken(0, 1, "a", 2, 2, 2, 2)}},
		{"too little left", false, []operation{taken(0, 1, "a", 2, 2, 2, 0)}},
		{"lost reply", true, []operation{lost(taken(0, 1, "a", 2, 2, 0, 0)), taken(2, 3, "b", 2, 2, 0, 1)}},
		{"lost reply is no licence", false, []operation{lost(taken(0, 1, "a", 2, 2, 0, 0)), taken(2, 3, "b", 3, 3, 3, 0), taken(4, 5, "b", 1, 1, 1, 0)}},
	})
	sliding.Skewed = true
	checkWritten(t, sliding, []written{
		{"clocks of clients deny for longer", true, []operation{taken(0, 1, "a", 3, 3, 3, 0), taken(120, 121, "b", 1, 1, 0, 0)}},
		{"clocks of clients grant no more", false, []operation{taken(0, 1, "a", 2, 2, 2, 1), taken(80, 81, "b", 2, 2, 2, 0)}},
	})
	fixed := heading{Model: modelMoving, Limit: driver.Limit{Rate: 3, Per: 100 * time.Millisecond, Algorithm: driver.FixedWindow}}
	checkWritten(t, fixed, []written{
		{"two windows", true, []operation{
			after(taken(60, 61, "a", 3, 3, 3, 0), 0, 40), after(taken(80, 81, "b", 1, 1, 0, 0), 20, 20), after(taken(110, 111, "c", 3, 3, 3, 0), 0, 90),
		}},
		{"over the rate of a window", false, []operation{after(taken(60, 61, "a", 3, 3, 3, 0), 0, 40), after(taken(80, 81, "b", 1, 1, 1, 2), 0, 20)}},
		{"a window that begins with its first use", false, []operation{after(taken(60, 61, "a", 3, 3, 3, 0), 0, 40), after(taken(130, 131, "c", 3, 3, 3, 0), 0, 100)}},
		{"a window that does not turn", false, []operation{after(taken(60, 61, "a", 3, 3, 3, 0), 0, 40), after(taken(130, 131, "c", 1, 1, 0, 0), 70, 70)}},
		{"many windows later", true, []operation{after(taken(60, 61, "a", 3, 3, 3, 0), 0, 40), after(taken(1130, 1131, "c", 1, 1, 1, 2), 0, 70)}},
		{"at the turn, in either window", true, []operation{
			after(taken(60, 61, "a", 2, 2, 2, 1), 0, 40), after(taken(98, 103, "b", 1, 1, 1, 0), 0, 1), after(taken(98, 103, "c", 1, 1, 1, 2), 0, 99),
		}},
		{"lost reply many windows later", true, []operation{
			after(taken(60, 61, "a", 3, 3, 3, 0), 0, 40), lost(taken(70, 71, "b", 2, 2, 0, 0)), after(taken(1130, 1131, "c", 2, 2, 0, 1), 70, 70),
		}},
		{"lost reply is no licence", false, []operation{
			lost(taken(0, 1, "a", 2, 2, 0, 0)), after(taken(20, 21, "b", 3, 3, 3, 0), 0, 80), after(taken(30, 31, "c", 1, 1, 1, 0), 0, 70),
		}},
	})
}

// A failing history is saved and drawn, and found to fail again.
func TestFailingHistoryIsSaved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "histories")
	t.Setenv(HistoriesEnv, dir)
	res := outcome(t, memoryHarness(), Case{run: func(e *env) {
		h := e.record(heading{Model: modelFence})
		for i, token := range []int64{2, 1} {
			h.add(operation{Op: opWrite, Key: "</script>", Call: int64(i) * 10, Return: int64(i)*10 + 1, Result: resOK, Token: token})
		}
		h.add(operation{Op: opWrite, Key: "other", Result: resOK, Token: 1})
		e.linearizable(h)
	}})
	if text := res.explainedBy("no order explains under the fence model"); res.Outcome != Fail || !strings.Contains(text, dir) {
		t.Fatalf("%s: %q, want a failure that names the files", res.Outcome, text)
	}
	saved, err := filepath.Glob(filepath.Join(dir, "coord-history-LOCK-00-*.jsonl"))
	if err != nil || len(saved) != 1 {
		t.Fatalf("saved %v, %v, want one history", saved, err)
	}
	data, err := os.ReadFile(saved[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckHistory(bytes.NewReader(data), 0, nil); !errors.Is(err, ErrNotLinearizable) {
		t.Errorf("the saved history: %v, want it refused again", err)
	}
	page, err := os.ReadFile(strings.TrimSuffix(saved[0], ".jsonl") + ".html")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(page, []byte("write")) || bytes.Contains(page, []byte(`src="http`)) {
		t.Error("the drawing does not show the operations, or needs the network")
	}
}

// A history without an answer proves nothing, and so is no pass.
func TestHistoryWithoutAnswersFails(t *testing.T) {
	res := outcome(t, memoryHarness(), Case{run: func(e *env) {
		h := e.record(heading{Model: modelLease})
		h.add(told(opTry, 0, 1, "a", resUnknown))
		e.linearizable(h)
	}})
	if res.Outcome != Fail || res.explainedBy("no operation that was answered") == "" {
		t.Errorf("%s: %v, want a failure", res.Outcome, res.Messages)
	}
}

func TestUndecidedHistoryIsTold(t *testing.T) {
	h := heading{Schema: historySchema, Model: modelLease}
	var ops []operation
	for i := range int64(2000) {
		ops = append(ops, told(opTry, i, i+1, fmt.Sprint(i), resUnknown))
	}
	var saved bytes.Buffer
	if err := writeHistory(&saved, h, append(ops, try(3000, 3001, "a", 1, 100), try(3002, 3003, "b", 1, 100))); err != nil {
		t.Fatal(err)
	}
	if err := CheckHistory(&saved, time.Millisecond, nil); err == nil || errors.Is(err, ErrNotLinearizable) || !strings.Contains(err.Error(), "not decided") {
		t.Errorf("%v, want that it was not decided", err)
	}
}

func TestUnreadableHistories(t *testing.T) {
	const head = `{"schema":1,"model":"lease"}` + "\n"
	for name, text := range map[string]string{
		"empty":             "",
		"no JSON":           "history",
		"another schema":    `{"schema":2,"model":"lease"}`,
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
		"negative lapse":    `{"schema":1,"model":"lease","lapse_ns":-1}`,
	} {
		if err := CheckHistory(strings.NewReader(text), time.Second, nil); err == nil || errors.Is(err, ErrNotLinearizable) {
			t.Errorf("%s: %v, want an error that says what is wrong", name, err)
		}
	}
}

// FuzzCheckHistory: whatever is read is decided, or refused, without a panic, and the same when it is written again.
func FuzzCheckHistory(f *testing.F) {
	add := func(h heading, ops ...operation) {
		h.Schema = historySchema
		var b bytes.Buffer
		if err := writeHistory(&b, h, ops); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	add(heading{Model: modelLease, Lapse: time.Second}, try(0, 1, "a", 1, 100), told(opUnlock, 2, 3, "a", resUnknown), try(4, 5, "b", 2, 100))
	add(heading{Model: modelOwners}, owned(opLock, 0, 1, "a", resOK, 1), owned(opCheck, 2, 3, "a", resLost, 1))
	add(heading{Model: modelFence}, owned(opWrite, 0, 1, "", resOK, 2), owned(opWrite, 2, 3, "", resRefused, 1))
	add(heading{Model: modelCounter, Limit: still(10)["sliding window"]}, taken(0, 1, "a", 6, 6, 6, 4), refund(2, 3, "a", 1), shaken(lost(taken(4, 5, "b", 1, 1, 0, 0))))
	for _, l := range moving() {
		add(heading{Model: modelMoving, Limit: l}, after(taken(0, 1, "a", 1, 3, 3, 2), 0, 90), lost(taken(2, 300, "b", 1, 1, 0, 0)), after(taken(900, 901, "c", 1, 3, 0, 0), 5, 90))
	}
	f.Add([]byte(`{"schema":1,"model":"lease"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		head, ops, err := readHistory(bytes.NewReader(data))
		if err != nil {
			return
		}
		ops = ops[:min(len(ops), 12)]
		v, err := head.check(ops, 50*time.Millisecond)
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := writeHistory(&again, head, ops); err != nil {
			t.Fatal(err)
		}
		head, ops, err = readHistory(&again)
		if err != nil {
			t.Fatalf("what was written is refused: %v", err)
		}
		w, err := head.check(ops, 50*time.Millisecond)
		if err != nil || v.result != w.result && v.result != "Unknown" && w.result != "Unknown" {
			t.Fatalf("%s, and %s, %v when read again", v.result, w.result, err)
		}
	})
}
