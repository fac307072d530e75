package holders

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

var start = time.UnixMicro(1_763_711_409_000_000)

func permits(weight, of int64) driver.Share {
	return driver.Share{Mode: driver.Permits, Weight: weight, Of: of}
}

func ask(id string, share driver.Share) driver.Request {
	return driver.Request{ID: id, TTL: time.Second, Share: share}
}

var rules = Rules{MaxHolders: 4, ClockTokens: true}

func grant(t *testing.T, r *Record, q driver.Request, now time.Time) driver.Grant {
	t.Helper()
	g, err := r.TryLock(q, now, rules)
	if err != nil {
		t.Fatalf("%s: %v", q.ID, err)
	}
	return g
}

func refuse(t *testing.T, r *Record, q driver.Request, now time.Time, want error) {
	t.Helper()
	if g, err := r.TryLock(q, now, rules); !errors.Is(err, want) {
		t.Errorf("%s: %+v, %v, want %v", q.ID, g, err, want)
	}
}

// Slots are the lowest free, and taken again; tokens rise, and a repeated request has its own.
func TestSlotsAndTokens(t *testing.T) {
	var r Record
	a := grant(t, &r, ask("a", permits(1, 3)), start)
	b := grant(t, &r, ask("b", permits(1, 3)), start)
	if a.Slot != 0 || b.Slot != 1 || b.Token <= a.Token || a.Token < start.UnixMicro() {
		t.Errorf("%+v and %+v", a, b)
	}
	if again := grant(t, &r, ask("b", permits(1, 3)), start); again.Token != b.Token || again.Slot != b.Slot {
		t.Errorf("again %+v, want %+v", again, b)
	}
	if err := r.Unlock("a", start, rules); err != nil {
		t.Error(err)
	}
	if c := grant(t, &r, ask("c", permits(2, 3)), start); c.Slot != 0 || c.Token <= b.Token {
		t.Errorf("%+v after %+v", c, b)
	}
	refuse(t, &r, ask("d", permits(1, 3)), start, driver.ErrLocked)
}

// A hold that was broken counts until its lease ends, and is nobody's.
func TestBrokenHold(t *testing.T) {
	var r Record
	grant(t, &r, ask("a", permits(1, 1)), start)
	if err := r.Break("a", start, rules); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Renew(ask("a", permits(1, 1)), start, rules); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Renew: %v", err)
	}
	if err := r.Unlock("a", start, rules); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Unlock: %v", err)
	}
	refuse(t, &r, ask("b", permits(1, 1)), start.Add(time.Second-time.Microsecond), driver.ErrLocked)
	grant(t, &r, ask("b", permits(1, 1)), start.Add(time.Second))
}

// BreakNow of an id that was broken ends also what the id took after that, over or not: a clock that is set back does not
// bring it to life.
func TestBreakNowLeavesNothingOver(t *testing.T) {
	var r Record
	long := ask("a", permits(1, 3))
	long.TTL = time.Minute
	grant(t, &r, long, start)
	if err := r.Break("a", start, rules); err != nil {
		t.Fatal(err)
	}
	grant(t, &r, ask("a", permits(1, 3)), start)
	if err := r.BreakNow("a", start.Add(2*time.Second), rules); err != nil {
		t.Fatal(err)
	}
	if live := r.Live(start); len(live) > 0 {
		t.Errorf("after the clock was set back: %+v", live)
	}
}

// BreakNow ends all that an id has, and nothing else.
func TestBreakNow(t *testing.T) {
	var r Record
	grant(t, &r, ask("a", permits(1, 3)), start)
	if err := r.Break("a", start, rules); err != nil {
		t.Fatal(err)
	}
	grant(t, &r, ask("a", permits(1, 3)), start) // it asks again, and has both
	grant(t, &r, ask("b", permits(1, 3)), start)
	refuse(t, &r, ask("c", permits(1, 3)), start, driver.ErrLocked)
	if err := r.BreakNow("a", start, rules); err != nil {
		t.Error(err)
	}
	if len(r.Holds) != 1 || r.Holds[0].ID != "b" {
		t.Errorf("left %+v, want that of b", r.Holds)
	}
	for _, id := range []string{"a", "c"} {
		if err := r.BreakNow(id, start, rules); !errors.Is(err, driver.ErrNotHeld) {
			t.Errorf("BreakNow of %s, which has nothing: %v", id, err)
		}
	}
	if err := r.Break("b", start, rules); err != nil {
		t.Error(err)
	}
	if err := r.BreakNow("b", start.Add(time.Second), rules); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("BreakNow after the lease: %v", err)
	}
}

// While the head waits nobody else is granted, for a second.
func TestHead(t *testing.T) {
	var r Record
	write := driver.Share{Mode: driver.Write}
	head := write
	head.Head = true
	read := driver.Share{Mode: driver.Read}
	grant(t, &r, ask("reader", read), start)
	refuse(t, &r, ask("writer", write), start, driver.ErrLocked)
	grant(t, &r, ask("beside", read), start) // the writer was no head
	refuse(t, &r, ask("writer", head), start, driver.ErrLocked)
	refuse(t, &r, ask("late", read), start.Add(driver.HeadFor-time.Microsecond), driver.ErrLocked)
	for _, id := range []string{"reader", "beside"} {
		if err := r.Unlock(id, start, rules); err != nil {
			t.Error(err)
		}
	}
	refuse(t, &r, ask("late", read), start, driver.ErrLocked)
	grant(t, &r, ask("writer", head), start)
	if r.Head != (Mark{}) {
		t.Errorf("a head that was granted is still head: %+v", r.Head)
	}
	refuse(t, &r, ask("next", head), start, driver.ErrLocked)
	if err := r.Unlock("next", start, rules); err != nil {
		t.Errorf("a head that leaves: %v", err)
	}
	if err := r.Unlock("next", start, rules); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("a head that has left: %v", err)
	}
	if err := r.Unlock("writer", start, rules); err != nil {
		t.Error(err)
	}
	grant(t, &r, ask("late", read), start)
}

// A renewal makes a hold smaller, and never greater.
func TestShrink(t *testing.T) {
	var r Record
	grant(t, &r, ask("a", permits(3, 4)), start)
	for _, weight := range []int64{2, 4} {
		if _, err := r.Renew(ask("a", permits(weight, 4)), start, rules); err != nil || r.Holds[0].Share.Weight != 2 {
			t.Errorf("%d asked: %d, %v, want 2", weight, r.Holds[0].Share.Weight, err)
		}
	}
	var w Record
	grant(t, &w, ask("w", driver.Share{Mode: driver.Write}), start)
	for _, mode := range []driver.Mode{driver.Read, driver.Write} {
		if _, err := w.Renew(ask("w", driver.Share{Mode: mode}), start, rules); err != nil || w.Holds[0].Share.Mode != driver.Read {
			t.Errorf("%v asked: %v, %v, want read", mode, w.Holds[0].Share.Mode, err)
		}
	}
}

// More holders than may be are refused by another error than a full key.
func TestMostHolders(t *testing.T) {
	var r Record
	for _, id := range []string{"a", "b", "c", "d"} {
		grant(t, &r, ask(id, driver.Share{Mode: driver.Read}), start)
	}
	refuse(t, &r, ask("e", driver.Share{Mode: driver.Read}), start, driver.ErrUnsupported)
	grant(t, &r, ask("e", driver.Share{Mode: driver.Read}), start.Add(time.Second))
}

// A clock that is set back blocks nobody for longer than a lease, and a head for longer than its second.
func TestClockSetBack(t *testing.T) {
	var r Record
	grant(t, &r, ask("a", permits(1, 1)), start)
	head := permits(1, 1)
	head.Head = true
	refuse(t, &r, ask("b", head), start, driver.ErrLocked)
	back := start.Add(-time.Hour)
	refuse(t, &r, ask("c", permits(1, 1)), back, driver.ErrLocked)
	c := grant(t, &r, ask("c", permits(1, 1)), back.Add(driver.HeadFor+time.Millisecond))
	if c.Token <= start.UnixMicro() {
		t.Errorf("token %d fell", c.Token)
	}
}

// walk makes random steps and checks what must hold after each.
func walk(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	var r Record
	now := start
	last := int64(0)
	shares := []driver.Share{permits(1, 3), permits(2, 3), permits(1, 2), {Mode: driver.Read}, {Mode: driver.Write}}
	for range 300 {
		now = now.Add(time.Duration(random.IntN(400)) * time.Millisecond)
		id := string(rune('a' + random.IntN(6)))
		share := shares[random.IntN(len(shares))]
		share.Head = random.IntN(3) == 0
		fresh := r.find(id, now.UnixMicro()) == nil
		switch random.IntN(4) {
		case 0:
			_ = r.Unlock(id, now, rules)
		case 1:
			_ = r.Break(id, now, rules)
		case 2:
			_, _ = r.Renew(ask(id, share), now, rules)
		default:
			if g, err := r.TryLock(ask(id, share), now, rules); err == nil && fresh {
				if g.Token <= last {
					t.Fatalf("seed %d: token %d after %d", seed, g.Token, last)
				}
				last = g.Token
			}
		}
		check(t, &r, now)
		if r.Token == 0 {
			continue // nothing was granted yet: there is nothing to keep
		}
		text := r.Append(nil)
		back, err := Parse(text)
		if err != nil || !reflect.DeepEqual(back.Append(nil), text) {
			t.Fatalf("seed %d: %q: %v", seed, text, err)
		}
		r = back
	}
}

// check is what is true of every record: no writer beside anybody, no more permits than the least bound, one slot each.
func check(t *testing.T, r *Record, now time.Time) {
	t.Helper()
	var live, writers int
	var sum int64
	bound := int64(driver.MaxPermits)
	slots := make(map[int]bool)
	for i := range r.Holds {
		h := &r.Holds[i]
		if !h.live(now.UnixMicro()) {
			continue
		}
		live++
		if slots[h.Slot] {
			t.Fatalf("two holds in slot %d: %+v", h.Slot, r)
		}
		slots[h.Slot] = true
		switch h.Share.Mode {
		case driver.Write:
			writers++
		case driver.Permits:
			sum, bound = sum+h.Share.Weight, min(bound, h.Share.Of)
		}
	}
	if writers > 0 && live > 1 || sum > bound {
		t.Fatalf("%d writers among %d, %d permits of %d: %+v", writers, live, sum, bound, r)
	}
}

func TestWalk(t *testing.T) {
	for seed := range uint64(300) {
		walk(t, seed)
	}
}

func FuzzParse(f *testing.F) {
	var r Record
	head := permits(2, 2)
	head.Head = true
	_, _ = r.TryLock(ask("a/1=b", permits(1, 2)), start, rules)
	_, _ = r.TryLock(ask("b", head), start, rules)
	_ = r.Break("a/1=b", start, rules)
	f.Add(r.Append(nil))
	for _, text := range []string{
		"", "\n", "coord-shared 1", "coord-shared 2 token=7\n", "coord-shared 1 token=7", "coord-shared 1 token=07\n",
		"coord-shared 1 token=7 head=1\n", "coord-shared 1 token=7 head=1 id=\n", "coord-shared 1 token=9007199254740992\n",
		"coord-shared 1 token=7\nheld read slot=0 weight=1 of=1 ttl=1 token=1 until=1 id=a\n",
		"coord-shared 1 token=7\nheld permits slot=0 weight=2 of=1 ttl=1 token=1 until=1 id=a\n",
		"coord-shared 1 token=7\nheld read slot=-1 weight=0 of=0 ttl=1 token=1 until=1 id=a\n",
		"coord-shared 1 token=7\nlent read slot=0 weight=0 of=0 ttl=1 token=1 until=1 id=a\n",
	} {
		if _, err := Parse([]byte(text)); !errors.Is(err, driver.ErrCorrupt) {
			f.Errorf("%q: %v, want ErrCorrupt", text, err)
		}
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Parse(text)
		if err != nil {
			if !errors.Is(err, driver.ErrCorrupt) {
				t.Fatalf("error %v, want ErrCorrupt", err)
			}
			return
		}
		if text != nil && string(r.Append(nil)) != string(text) {
			t.Fatalf("%q reads as %+v, which writes as %q", text, r, r.Append(nil))
		}
		_, _ = r.TryLock(ask("z", permits(1, 1)), start, rules)
		_ = r.Live(start)
	})
}
