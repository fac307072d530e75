package history

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/coordgo/coord/driver"
)

// String is the operation as the drawing shows it: "client 2: try …3fa9 → ok, token 17, for 500ms".
func (o *Operation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "client %d: %s", o.Client, o.Op)
	if o.Who != "" {
		b.WriteString(" " + ShortID(o.Who))
	}
	if o.Mode != driver.Exclusive {
		b.WriteString(" " + ShareText(driver.Share{Mode: o.Mode, Weight: o.Weight, Of: o.Of, Head: o.Head}))
	}
	switch o.Op {
	case OpTake:
		fmt.Fprintf(&b, " %d to %d", o.Min, o.N)
	case OpRefund:
		fmt.Fprintf(&b, " %d", o.N)
	}
	fmt.Fprintf(&b, " → %s", o.Result)
	if o.Token != 0 {
		fmt.Fprintf(&b, ", token %d", o.Token)
	}
	if o.Mode != driver.Exclusive && o.Result == OK {
		fmt.Fprintf(&b, ", slot %d", o.Slot)
	}
	if o.TTL != 0 {
		fmt.Fprintf(&b, ", for %v from %s", time.Duration(o.TTL), timeText(o.Start))
	}
	if o.Op == OpTake && o.Result == OK {
		fmt.Fprintf(&b, ", %d granted, %d left", o.Granted, o.Remaining)
	}
	if o.Error != "" {
		b.WriteString(" (" + o.Error + ")")
	}
	return b.String()
}

// ShareText is a share in words: "read", "2 of 3 at the head".
func ShareText(s driver.Share) string {
	text := s.Mode.String()
	if s.Mode == driver.Permits {
		text = fmt.Sprintf("%d of %d", s.Weight, s.Of)
	}
	if s.Head {
		text += " at the head"
	}
	return text
}

// ShortID is the end of an id, enough to tell it from others.
func ShortID(id string) string {
	const n = 6
	if len(id) <= 2*n {
		return id
	}
	return "…" + id[len(id)-n:]
}

// timeText is a time of the history.
func timeText(ns int64) string {
	switch ns {
	case math.MinInt64:
		return "unknown"
	case math.MaxInt64:
		return "the end"
	}
	return time.Duration(ns).Round(time.Microsecond).String()
}
