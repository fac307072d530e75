package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/holders"
)

// injectSharedClock is injectClock for the scripts of shared holds.
func injectSharedClock(t testing.TB, b *backend) {
	t.Helper()
	const clock = "local now = time[1] * 1000000 + time[2]"
	b.shared = newSharedScripts(func(source string) string {
		if strings.Count(source, clock) != 1 {
			t.Fatalf("the clock is read %d times", strings.Count(source, clock))
		}
		return strings.Replace(source, clock, "local now = tonumber(table.remove(ARGV))", 1)
	})
	for _, s := range b.shared.all() {
		if err := b.client.ScriptLoad(t.Context(), s.source).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// sharedDiffer is a random walk of one key, in Go and in Lua, at the same times.
type sharedDiffer struct {
	rnd     *rand.Rand
	hash    string
	share   func() driver.Share
	now     int64
	record  holders.Record
	ids     []string
	answers map[string]int // how often each kind was given
}

var sharedTestRules = holders.Rules{MaxHolders: driver.MaxHolders, ClockTokens: true}

// own has step change what a script of the id touches: its hold, if it was not broken, and its mark as the head.
func (d *sharedDiffer) own(id string, step func(r *holders.Record)) {
	d.part(id, func(h holders.Hold) bool { return h.ID == id && !h.Broken }, step)
}

// part has step change the holds that are mine, and the mark of id as the head.
func (d *sharedDiffer) part(id string, mine func(holders.Hold) bool, step func(r *holders.Record)) {
	part := holders.Record{Token: d.record.Token}
	if d.record.Head.ID == id {
		part.Head = d.record.Head
	}
	for _, h := range d.record.Holds {
		if mine(h) {
			part.Holds = append(part.Holds, h)
		}
	}
	step(&part)
	if part.Head.ID == "" && d.record.Head.ID == id {
		d.record.Head = holders.Mark{}
	}
	d.record.Holds = append(slices.DeleteFunc(d.record.Holds, mine), part.Holds...)
}

// outcome is an answer as text.
func outcome(g driver.Grant, err error) string {
	var locked *driver.LockedError
	if errors.As(err, &locked) {
		return fmt.Sprint("locked for ", locked.Remaining)
	}
	for _, kind := range []error{driver.ErrNotHeld, driver.ErrUnsupported} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("token %d, ttl %v, slot %d of %d", g.Token, g.TTL, g.Slot, g.Of)
}

// step makes a random one, and expects what the record answers.
func (d *sharedDiffer) step(ctx context.Context, b *backend) expectation {
	d.advance()
	id, now := d.ids[d.rnd.IntN(len(d.ids))], time.UnixMicro(d.now)
	kind := d.rnd.IntN(14)
	if n := len(d.record.Holds); kind >= 6 && n > 0 && d.rnd.IntN(3) > 0 {
		id = d.record.Holds[d.rnd.IntN(n)].ID
	}
	r := driver.Request{ID: id, TTL: time.Duration(1+d.rnd.IntN(15_000_000)) * time.Microsecond, Share: d.share()}
	s := &b.shared
	var what, want string
	var c *command
	var got func(r reply) string
	switch {
	case kind < 6:
		r.Share.Head = d.rnd.IntN(3) == 0
		grant, refusal := d.record.TryLock(r, now, sharedTestRules)
		what, want = "take", outcome(grant, refusal)
		c, got = s.take.command(ctx, d.hash, id, takeNumbers(r)), func(r reply) string {
			g, err := sharedTaken(r)
			return outcome(g, atMost(err, refusal))
		}
	case kind < 8:
		d.own(id, func(own *holders.Record) { what, want = "renew", outcome(own.Renew(r, now, sharedTestRules)) })
		c, got = s.renew.command(ctx, d.hash, id, renewNumbers(r)), func(r reply) string { return outcome(sharedRenewed(r)) }
	case kind < 10:
		d.own(id, func(own *holders.Record) { what, want = "unlock", ended(own.Unlock(id, now, sharedTestRules)) })
		c, got = s.unlock.command(ctx, d.hash, id), endedReply
	case kind < 11:
		d.part(id, func(h holders.Hold) bool { return h.ID == id }, func(all *holders.Record) {
			what, want = "break now", ended(all.BreakNow(id, now, sharedTestRules))
		})
		c, got = s.unlock.command(ctx, d.hash, id, 1), endedReply
	case kind < 12:
		d.own(id, func(own *holders.Record) { what, want = "break", ended(own.Break(id, now, sharedTestRules)) })
		c, got = s.breaks.command(ctx, d.hash, id), endedReply
	default:
		what, want = "holders", fmt.Sprintf("%+v", byToken(d.record.Live(now)))
		c, got = s.holders.command(ctx, d.hash), func(r reply) string {
			live, err := sharedHolders(d.hash, r)
			return fmt.Sprintf("%+v", live) + strings.TrimPrefix(fmt.Sprint(err), "<nil>")
		}
	}
	answer, _, _ := strings.Cut(want, " ")
	if what == "holders" {
		answer = fmt.Sprint(strings.Count(want, "{ID:"))
	}
	d.answers[what+": "+answer]++
	said := fmt.Sprintf("%s at %d: %s %+v", d.hash, d.now, what, r)
	c = at(ctx, c, d.now)
	return expectation{said, c, func() any { return got(reply{value: c.Val()}) }, want}
}

// atMost is err, or want if both say that the key is taken, and err for less long: the script does not look for the next
// lease to end when that of before was renewed.
func atMost(err, want error) error {
	var got, most *driver.LockedError
	if errors.As(err, &got) && errors.As(want, &most) && 0 < got.Remaining && got.Remaining < most.Remaining {
		return want
	}
	return err
}

func byToken(live []driver.Holder) []driver.Holder {
	slices.SortFunc(live, func(a, b driver.Holder) int { return cmp.Compare(a.Token, b.Token) })
	return live
}

// ended is the answer to an unlock or a break as text.
func ended(err error) string {
	if err != nil {
		return err.Error()
	}
	return "ended"
}

func endedReply(r reply) string {
	n, err := r.integer()
	if err == nil && n == 0 {
		err = driver.ErrNotHeld
	}
	return ended(err)
}

// advance moves the clock, mostly by steps in which something happens.
func (d *sharedDiffer) advance() {
	switch d.rnd.IntN(14) {
	case 0, 1, 2, 3:
	case 4, 5, 6, 7:
		d.now += d.rnd.Int64N(300_000)
	case 8, 9, 10:
		if n := len(d.record.Holds); n > 0 { // about the end of a lease
			d.now = max(d.now, d.record.Holds[d.rnd.IntN(n)].Until+d.rnd.Int64N(3)-1)
		}
	case 11:
		d.now = max(d.now, d.record.Head.Until+d.rnd.Int64N(3)-1)
	case 12:
		d.now += d.rnd.Int64N(20_000_000)
	case 13:
		d.now -= d.rnd.Int64N(2_000_000)
		if d.rnd.IntN(8) == 0 { // a clock that was wrong is set right
			d.now -= d.rnd.Int64N(120_000_000)
		}
	}
}

// sharedWalks are the kinds of holds that are walked through.
func sharedWalks(rnd *rand.Rand) map[string]func() driver.Share {
	permits := func(most int64) driver.Share {
		return driver.Share{Mode: driver.Permits, Weight: 1 + rnd.Int64N(most), Of: most}
	}
	readers := func() driver.Share {
		if rnd.IntN(4) == 0 {
			return driver.Share{Mode: driver.Write}
		}
		return driver.Share{Mode: driver.Read}
	}
	changing := func() driver.Share { return permits(1 + rnd.Int64N(12)) }
	return map[string]func() driver.Share{
		"readers and writers": readers,
		"writers":             func() driver.Share { return driver.Share{Mode: driver.Write} },
		"one at a time":       func() driver.Share { return permits(1) },
		"permits":             func() driver.Share { return permits(6) },
		"changing bounds":     changing,
		"light ones":          func() driver.Share { return driver.Share{Mode: driver.Permits, Weight: 1, Of: 5} },
		"the most permits":    func() driver.Share { return permits(driver.MaxPermits - rnd.Int64N(3)) },
		"all modes": func() driver.Share {
			if rnd.IntN(2) == 0 {
				return readers()
			}
			return changing()
		},
	}
}

// TestSharedScriptsEqualTheRecord: the scripts of shared holds answer what package holders does, to the microsecond,
// over 20,000 random steps, other ones in each run, with a clock that is also set back.
func TestSharedScriptsEqualTheRecord(t *testing.T) {
	t.Parallel()
	b := patient(t)
	injectSharedClock(t, b)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	answers := map[string]int{}
	walks := sharedWalks(rnd)
	for _, name := range slices.Sorted(maps.Keys(walks)) { // a seed is the same walks again
		share := walks[name]
		d := &sharedDiffer{rnd: rnd, hash: sharedKey(name), share: share, now: 1_790_000_000_000_000 + rnd.Int64N(1e9), answers: answers}
		for i := range 9 {
			d.ids = append(d.ids, newID(fmt.Sprint("id", i)))
		}
		for range 10 {
			compareAll(t, b, 250, func() expectation { return d.step(t.Context(), b) })
		}
	}
	for _, answer := range []string{
		"take: token", "take: locked", "renew: token", "renew: not", "unlock: ended", "unlock: not", "break: ended", "break: not", "break now: ended", "break now: not", "holders: 0", "holders: 1", "holders: 2", "holders: 3",
	} {
		if answers[answer] < 40 {
			t.Errorf("only %d times %q of %v", answers[answer], answer, answers)
		}
	}
	t.Log(answers)
}
