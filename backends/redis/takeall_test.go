package redis

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
)

// model is TakeAll by package limits, on states in memory.
type model map[string]*limits.State

func (m model) copyOf(t *testing.T, name string) *limits.State {
	state := new(limits.State)
	if m[name] == nil {
		return state
	}
	stored, err := m[name].MarshalBinary()
	if err == nil {
		err = state.UnmarshalBinary(stored)
	}
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// takeAll gives what the script is to reply, and takes.
func (m model) takeAll(t *testing.T, now int64, parts []demandPart) (want []int64) {
	try := func(n func(p demandPart) int) (trial model, answers []driver.TakenOne) {
		trial = model{}
		for _, p := range parts {
			name := p.key + limits.Name(p.limit)
			if trial[name] == nil {
				trial[name] = m.copyOf(t, name)
			}
			one, _ := trial[name].Take(p.limit, now, driver.Ask{Min: n(p), N: n(p)})
			answers = append(answers, one)
		}
		return trial, answers
	}
	trial, answers := try(func(p demandPart) int { return p.n })
	denied := false
	for i, one := range answers {
		denied = denied || one.N < parts[i].n
	}
	if denied {
		_, peeks := try(func(demandPart) int { return 0 })
		for i, peek := range peeks {
			want = append(want, 0, 0, answers[i].RetryAfter.Microseconds(), 0, int64(peek.Remaining), peek.ResetAfter.Microseconds())
		}
		return want
	}
	for _, one := range answers {
		want = append(want, int64(one.N), 0, one.RetryAfter.Microseconds(), one.ValidFor.Microseconds(), int64(one.Remaining), one.ResetAfter.Microseconds())
	}
	for name, state := range trial {
		m[name] = state
	}
	return want
}

// numbersOf is a reply to parts as the model has it.
func numbersOf(reply packedReply, parts []demandPart) (numbers []int64) {
	for i, p := range parts {
		one := reply.from(6 * i)
		g := grantedOf(one, p.limit)
		numbers = append(numbers, int64(g.N), g.Delay.Microseconds(), g.RetryAfter.Microseconds(), g.ValidFor.Microseconds(), one.at(4), one.at(5))
	}
	return numbers
}

// TestTakeAllEqualsPackageLimits: over thousands of random demands, several at a
// time and some on one state, the script answers what package limits does.
func TestTakeAllEqualsPackageLimits(t *testing.T) {
	t.Parallel()
	b := patient(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	keys := []string{"x", "y"}
	pool := []string{"5/1s", "7/1s", "20/1m", "6/1s burst=4", "6/1s burst=9", "12/1h burst=2", "9/1s fixed-window", "4/1s fixed-window", "30/1m fixed-window"}
	m, now := model{}, int64(1_790_000_000_000_000)
	granted, denied, shared := 0, 0, 0
	for range 6000 {
		now += rnd.Int64N(400_000) - 20_000
		var demands []driver.Demand
		for range 1 + rnd.IntN(5) {
			l := limitOf(t, pool[rnd.IntN(len(pool))])
			demands = append(demands, driver.Demand{Key: keys[rnd.IntN(len(keys))], Limit: l, N: rnd.IntN(min(l.Max(), 3) + 1)})
		}
		parts, err := partsOf(demands)
		if errors.Is(err, driver.ErrInvalid) {
			continue // more in sum than the limit ever grants
		}
		if err != nil {
			t.Fatal(err)
		}
		want := m.takeAll(t, now, parts)
		c := at(t.Context(), b.newTakeAll(t.Context(), parts), now)
		if err := b.client.Process(t.Context(), c); err != nil {
			t.Fatalf("%+v at %d: %v", parts, now, err)
		}
		if got := numbersOf(packedReply(c.Val().(string)), parts); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%+v at %d:\ngot  %v\nwant %v", parts, now, got, want)
		}
		names := map[string]bool{}
		asked, got := 0, 0
		for i, p := range parts {
			names[p.key+limits.Name(p.limit)] = true
			asked, got = asked+p.n, got+int(want[6*i])
		}
		switch {
		case asked > 0 && got == asked:
			granted++
		case asked > 0:
			denied++
		}
		if len(names) < len(parts) {
			shared++
		}
	}
	if granted < 500 || denied < 500 || shared < 500 {
		t.Errorf("%d granted, %d denied, %d with two limits on a state: want 500 of each", granted, denied, shared)
	}
}

// Takes of several limits leave the grants that can be given back of the others alone,
// and go on where single takes have stopped.
func TestTakeAllAmongReservations(t *testing.T) {
	t.Parallel()
	b := shared(t)
	ctx := t.Context()
	bucket, window := limitOf(t, "1/1h burst=3"), limitOf(t, "10/1h")
	id := newID("a")
	if one, err := b.TakeOne(ctx, "k", bucket, driver.Ask{ID: id, Min: 5, N: 3, MaxDelay: 0}); !errors.Is(err, driver.ErrInvalid) {
		t.Fatalf("%+v, %v", one, err)
	}
	must[driver.TakenOne](t)(b.TakeOne(ctx, "k", bucket, driver.Ask{Min: 3, N: 3}))
	must[driver.TakenOne](t)(b.TakeOne(ctx, "k", bucket, driver.Ask{ID: id, Min: 2, N: 2, MaxDelay: 3 * time.Hour}))
	must[driver.TakenOne](t)(b.TakeOne(ctx, "k", window, driver.Ask{ID: id, Min: 4, N: 4}))
	taken := must[[]driver.Taken](t)(b.TakeAll(ctx, []driver.Demand{{Key: "k", Limit: window, N: 6}, {Key: "k", Limit: bucket, N: 1}}))
	if taken[0].Asks[0].N != 0 || taken[1].Asks[0].N != 0 || taken[0].Remaining != 6 || taken[1].Asks[0].RetryAfter <= 2*time.Hour {
		t.Errorf("with nothing left in the bucket: %+v", taken)
	}
	taken = must[[]driver.Taken](t)(b.TakeAll(ctx, []driver.Demand{{Key: "k", Limit: window, N: 2}, {Key: "k", Limit: window, N: 1}, {Key: "k2", Limit: bucket, N: 3}}))
	if taken[0].Asks[0].N != 2 || taken[1].Asks[0].N != 1 || taken[2].Asks[0].N != 3 || taken[1].Remaining != 3 {
		t.Errorf("all there: %+v", taken)
	}
	if err := b.Refund(ctx, "k", window, id, 4); err != nil {
		t.Fatal(err)
	}
	if err := b.Refund(ctx, "k", bucket, id, 2); err != nil {
		t.Fatal(err)
	}
	if one := must[driver.TakenOne](t)(b.TakeOne(ctx, "k", window, driver.Ask{})); one.Remaining != 7 {
		t.Errorf("after the refund: %+v, want 7 left", one)
	}
	if one := must[driver.TakenOne](t)(b.TakeOne(ctx, "k", bucket, driver.Ask{Min: 1, N: 1})); one.RetryAfter > time.Hour {
		t.Errorf("after the refund: %+v", one)
	}
	// All of it expires.
	for _, key := range must[[]string](t)(b.client.Keys(ctx, "*").Result()) {
		if ttl := b.client.PTTL(ctx, key).Val(); ttl <= 0 {
			t.Errorf("%s lives for %v", key, ttl)
		}
	}
}

func TestTakeAllRefuses(t *testing.T) {
	t.Parallel()
	b := shared(t)
	ctx := t.Context()
	l := limitOf(t, "10/1s")
	for name, demands := range map[string][]driver.Demand{
		"too many":          {{Key: "a", Limit: l, N: 11}},
		"negative":          {{Key: "a", Limit: l, N: 5}, {Key: "a", Limit: l, N: -1}},
		"too many in sum":   {{Key: "a", Limit: l, N: 6}, {Key: "a", Limit: l, N: 5}},
		"too many of these": make([]driver.Demand, maxDemands+1),
	} {
		if _, err := b.TakeAll(ctx, demands); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if taken, err := b.TakeAll(ctx, nil); taken != nil || err != nil {
		t.Errorf("nothing: %v, %v", taken, err)
	}
}

// Each state is read once, whatever is decided on it.
func TestTakeAllReadsOnce(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	ctx := t.Context()
	demands := []driver.Demand{{Key: "a", Limit: limitOf(t, "5/1h"), N: 2}, {Key: "b", Limit: limitOf(t, "5/1h fixed-window"), N: 2}, {Key: "c", Limit: limitOf(t, "5/1h burst=5"), N: 2}}
	must[[]driver.Taken](t)(b.TakeAll(ctx, demands))
	if err := b.client.ConfigResetStat(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	must[[]driver.Taken](t)(b.TakeAll(ctx, demands))
	reads := 0
	for line := range strings.Lines(b.client.Info(ctx, "commandstats").Val()) {
		var n int
		name, rest, _ := strings.Cut(line, ":")
		if _, err := fmt.Sscanf(rest, "calls=%d,", &n); err == nil && (name == "cmdstat_get" || name == "cmdstat_getrange") {
			reads += n
		}
	}
	if reads != len(demands) {
		t.Errorf("%d reads of %d states", reads, len(demands))
	}
}

// A foreign key in the way of one limit keeps all from being taken.
func TestTakeAllIsAllOrNone(t *testing.T) {
	t.Parallel()
	b := shared(t)
	ctx := t.Context()
	fixed, sliding := limitOf(t, "10/1h fixed-window"), limitOf(t, "10/1h")
	must[driver.TakenOne](t)(b.TakeOne(ctx, "b", sliding, driver.Ask{Min: 1, N: 1, ID: newID("a")}))
	hash := limitKey("b", sliding) + ":h"
	if err := b.client.Set(ctx, hash, "foreign", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	_, err := b.TakeAll(ctx, []driver.Demand{{Key: "a", Limit: fixed, N: 3}, {Key: "b", Limit: sliding, N: 1}})
	if !errors.Is(err, driver.ErrCorrupt) {
		t.Errorf("%v, want ErrCorrupt", err)
	}
	if got := must[driver.TakenOne](t)(b.TakeOne(ctx, "a", fixed, driver.Ask{})); got.Remaining != 10 {
		t.Errorf("%+v, want 10 left", got)
	}
	if got := b.client.Get(ctx, hash).Val(); got != "foreign" {
		t.Errorf("the foreign key is now %q", got)
	}
}
