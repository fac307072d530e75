package history

import (
	"errors"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

// entered is a TryLock of a share that was granted, from and to some millisecond, for 100 of them.
func entered(from, to int64, who string, s driver.Share, token int64, slot int) Operation {
	o := try(from, to, who, token, 100)
	o.Slot = slot
	return shared(o, s)
}

// shared makes o one of a share.
func shared(o Operation, s driver.Share) Operation {
	o.Mode, o.Weight, o.Of, o.Head = s.Mode, s.Weight, s.Of, s.Head
	return o
}

func TestSharesModel(t *testing.T) {
	read, write := driver.Share{Mode: driver.Read}, driver.Share{Mode: driver.Write}
	two, one := driver.Share{Mode: driver.Permits, Weight: 2, Of: 3}, driver.Share{Mode: driver.Permits, Weight: 1, Of: 3}
	head := write
	head.Head = true
	shrunk := shared(renew(2, 3, "a", 1, 100), one)
	h := Heading{Schema: Schema, Model: ModelHolds, Lapse: 50 * time.Millisecond}
	for name, tc := range map[string]struct {
		ok  bool
		ops []Operation
	}{
		"nothing":                      {true, nil},
		"two readers":                  {true, []Operation{entered(0, 1, "a", read, 1, 0), entered(2, 3, "b", read, 2, 1)}},
		"a writer beside a reader":     {false, []Operation{entered(0, 1, "a", read, 1, 0), entered(2, 3, "b", write, 2, 1)}},
		"a writer after a reader":      {true, []Operation{entered(0, 1, "a", read, 1, 0), told(OpUnlock, 2, 3, "a", OK), entered(4, 5, "b", write, 2, 0)}},
		"a writer after a lease":       {true, []Operation{entered(0, 1, "a", read, 1, 0), entered(96, 105, "b", write, 2, 0)}},
		"more permits than there are":  {false, []Operation{entered(0, 1, "a", two, 1, 0), entered(2, 3, "b", two, 2, 1)}},
		"all permits":                  {true, []Operation{entered(0, 1, "a", two, 1, 0), entered(2, 3, "b", one, 2, 1)}},
		"permits that were given back": {true, []Operation{entered(0, 1, "a", two, 1, 0), shrunk, entered(4, 5, "b", two, 2, 1)}},
		"a slot twice":                 {false, []Operation{entered(0, 1, "a", read, 1, 0), entered(2, 3, "b", read, 2, 0)}},
		"a token twice":                {false, []Operation{entered(0, 1, "a", read, 1, 0), entered(2, 3, "b", read, 1, 1)}},
		"tokens that fall":             {false, []Operation{entered(0, 1, "a", read, 2, 0), entered(2, 3, "b", read, 1, 1)}},
		"a refusal with a reason":      {true, []Operation{entered(0, 1, "a", write, 1, 0), shared(told(OpTry, 2, 3, "b", Locked), read)}},
		"a refusal without a reason":   {false, []Operation{entered(0, 1, "a", read, 1, 0), shared(told(OpTry, 2, 3, "b", Locked), read)}},
		"a refusal behind a head": {true, []Operation{
			entered(0, 1, "a", read, 1, 0), shared(told(OpTry, 2, 3, "b", Locked), head), shared(told(OpTry, 4, 5, "c", Locked), read),
		}},
		"a hold that is forgotten": {false, []Operation{entered(0, 1, "a", read, 1, 0), told(OpRenew, 2, 3, "a", NotHeld)}},
		"a renewal of nothing":     {false, []Operation{shared(renew(2, 3, "a", 1, 100), read)}},
		"a lost reply of a hold that had lapsed": {true, []Operation{
			entered(0, 1, "a", one, 1, 0), shared(told(OpTry, 200, 201, "a", Unknown), one), // which is granted token 2
			entered(202, 203, "b", one, 3, 1), entered(204, 205, "a", one, 2, 0),
		}},
		"an older token of a hold that had lapsed": {false, []Operation{
			entered(0, 1, "a", one, 1, 0), entered(202, 203, "b", one, 3, 1), shared(told(OpTry, 204, 205, "a", Unknown), one), entered(206, 207, "a", one, 2, 0),
		}},
		"a lost reply": {true, []Operation{shared(told(OpTry, 0, 1, "a", Unknown), write), shared(told(OpTry, 2, 3, "b", Locked), read)}},
	} {
		v, err := h.Check(tc.ops, time.Second)
		if err != nil || v.Err != nil && !errors.Is(v.Err, ErrNotLinearizable) || tc.ok != (v.Err == nil) {
			t.Errorf("%s: %v, %v, want linearizable: %v", name, v.Err, err, tc.ok)
		}
	}
}
