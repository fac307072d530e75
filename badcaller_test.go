package coord_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
)

// patience is far more than a valid call takes on a busy machine. A call that
// takes longer waits for a mutex that nobody gives back.
const patience = 30 * time.Second

// badCall is one call with an invalid argument.
type badCall struct {
	of   string // the function, as TestBadCallersCoverTheAPI names it
	what string // is wrong
	call func(ctx context.Context, c *coord.Client) error
	// want is what the error matches; nil: the call panics. That is right for a
	// nil context, function or interface: the mistake is in the caller's source.
	want error
}

var (
	second = coord.PerSecond(100)
	bucket = coord.Limit{Rate: 100, Per: time.Second, Burst: 100}
	work   = func(context.Context) error { return nil }

	noContext context.Context // nil, as bad callers give it
)

var badKeys = map[string]string{
	"empty key": "", "key too long": strings.Repeat("k", coord.MaxKey+1), "key not UTF-8": "k\xff",
	"key with NUL": "k\x00",
}

var badLimits = map[string]coord.Limit{
	"zero limit":            {},
	"rate 0":                coord.PerSecond(0),
	"rate -1":               coord.PerSecond(-1),
	"least rate":            coord.PerSecond(math.MinInt),
	"greatest rate":         coord.PerSecond(math.MaxInt),
	"period 0":              coord.Per(1, 0),
	"period -1s":            coord.Per(1, -time.Second),
	"period 1ns":            coord.Per(1, 1),
	"period with a rest":    coord.Per(1, time.Second+1),
	"greatest period":       coord.Per(1, math.MaxInt64),
	"burst -1":              {Rate: 1, Per: time.Second, Burst: -1},
	"greatest burst":        {Rate: 1, Per: time.Second, Burst: math.MaxInt},
	"burst of a window":     {Rate: 1, Per: time.Second, Burst: 1, Algorithm: coord.FixedWindow},
	"algorithm 99":          {Rate: 1, Per: time.Second, Algorithm: 99},
	"algorithm -1":          {Rate: 1, Per: time.Second, Algorithm: -1},
	"burst beyond counting": {Rate: 1, Per: coord.Limit{}.Per + 366*24*time.Hour, Burst: 1_000_000},
}

var badLockOptions = map[string][]coord.LockOption{
	"empty option":      {{}},
	"TTL 0":             {coord.TTL(0)},
	"TTL -1":            {coord.TTL(-1)},
	"TTL 30":            {coord.TTL(30)}, // nanoseconds
	"MaxHold 10":        {coord.MaxHold(10)},
	"MinHold 10":        {coord.MinHold(10)},
	"greatest TTL":      {coord.TTL(math.MaxInt64)},
	"MaxHold 0":         {coord.MaxHold(0)},
	"least MaxHold":     {coord.MaxHold(math.MinInt64)},
	"MinHold -1":        {coord.MinHold(-1)},
	"greatest MinHold":  {coord.MinHold(math.MaxInt64)},
	"MinHold > MaxHold": {coord.MinHold(time.Minute), coord.MaxHold(time.Second)},
	"WaitAtMost 0":      {coord.WaitAtMost(0)},
	"MaxWaiting 0":      {coord.MaxWaiting(0)},
	"MaxWaiting -1":     {coord.MaxWaiting(-1)},
	"Weight 0":          {coord.Weight(0)},
	"greatest Weight":   {coord.Weight(math.MaxInt)},
}

var badLeases = map[string]coord.PermitLease{
	"Max -1":           {Max: -1},
	"greatest Max":     {Max: math.MaxInt},
	"For -1":           {For: -1},
	"For 1ns":          {For: 1},
	"greatest For":     {For: math.MaxInt64},
	"Lessees -1":       {Lessees: -1},
	"greatest Lessees": {Lessees: math.MaxInt},
}

// badCalls is the table: every function of the package that takes an argument,
// with every argument that it refuses.
func badCalls() []badCall {
	var all []badCall
	add := func(of, what string, want error, call func(ctx context.Context, c *coord.Client) error) {
		all = append(all, badCall{of, what, call, want})
	}
	for of, call := range keyCalls {
		for what, key := range badKeys {
			add(of, what, coord.ErrInvalid, func(ctx context.Context, c *coord.Client) error { return call(ctx, c, key) })
		}
		add(of, "nil context", nil, func(_ context.Context, c *coord.Client) error { return call(noContext, c, "k") })
	}
	for of, call := range limitCalls {
		for what, l := range badLimits {
			add(of, what, coord.ErrInvalid, func(ctx context.Context, c *coord.Client) error { return call(ctx, c, l) })
		}
	}
	for of, call := range countCalls {
		for _, n := range []int{-1, math.MinInt} {
			add(of, fmt.Sprint(n, " permits"), coord.ErrInvalid, func(ctx context.Context, c *coord.Client) error { return call(ctx, c, n) })
		}
		if of != "Client.AllowAtMost" { // which takes what there is
			add(of, "the most permits", coord.ErrExceedsBurst, func(ctx context.Context, c *coord.Client) error { return call(ctx, c, math.MaxInt) })
		}
	}
	for of, call := range lockCalls {
		for what, opts := range badLockOptions {
			add(of, what, coord.ErrInvalid, func(ctx context.Context, c *coord.Client) error { return call(ctx, c, opts...) })
		}
	}
	for what, lease := range badLeases {
		add("Client.LeasePermits", what, coord.ErrInvalid, func(_ context.Context, c *coord.Client) error { return c.LeasePermits(lease) })
		add("Client.LeasePermits", what+", named", coord.ErrInvalid, func(_ context.Context, c *coord.Client) error { return c.LeasePermits(lease, second) })
	}
	for what, l := range badLimits {
		add("Client.LeasePermits", what, coord.ErrInvalid, func(_ context.Context, c *coord.Client) error {
			return c.LeasePermits(coord.PermitLease{}, second, l)
		})
	}
	return append(all, oddCalls...)
}

// keyCalls are the calls that take a context and a key.
var keyCalls = map[string]func(ctx context.Context, c *coord.Client, key string) error{
	"Client.Lock":    func(ctx context.Context, c *coord.Client, key string) error { return ignore(c.Lock(ctx, key)) },
	"Client.TryLock": func(ctx context.Context, c *coord.Client, key string) error { return ignore(c.TryLock(ctx, key)) },
	"Client.Allow":   func(ctx context.Context, c *coord.Client, key string) error { return ignore(c.Allow(ctx, key, second)) },
	"Client.AllowN": func(ctx context.Context, c *coord.Client, key string) error {
		return ignore(c.AllowN(ctx, key, second, 2))
	},
	"Client.AllowAtMost": func(ctx context.Context, c *coord.Client, key string) error {
		return ignore(c.AllowAtMost(ctx, key, second, 2))
	},
	"Client.AllowAll": func(ctx context.Context, c *coord.Client, key string) error {
		return ignore(c.AllowAll(ctx, coord.Demand{Key: "k", Limit: second, N: 1}, coord.Demand{Key: key, Limit: second, N: 1}))
	},
	"Client.Peek": func(ctx context.Context, c *coord.Client, key string) error { return ignore(c.Peek(ctx, key, second)) },
	"Client.Reserve": func(ctx context.Context, c *coord.Client, key string) error {
		return ignore(c.Reserve(ctx, key, bucket, 1))
	},
	"Client.Override": func(ctx context.Context, c *coord.Client, key string) error {
		return c.Override(ctx, key, 2, time.Minute)
	},
	"Client.EndOverride": func(ctx context.Context, c *coord.Client, key string) error { return c.EndOverride(ctx, key) },
	"Client.Charge": func(ctx context.Context, c *coord.Client, key string) error {
		return ignore(c.Charge(ctx, key, second, 2))
	},
	"Client.Settle": func(ctx context.Context, c *coord.Client, key string) error {
		return c.Settle(ctx, key, second, 3, 2)
	},
	"Client.Reset":    func(ctx context.Context, c *coord.Client, key string) error { return c.Reset(ctx, key, second) },
	"Client.Wait":     func(ctx context.Context, c *coord.Client, key string) error { return c.Wait(ctx, key, second) },
	"Client.WaitN":    func(ctx context.Context, c *coord.Client, key string) error { return c.WaitN(ctx, key, bucket, 2) },
	"Client.Inspect":  func(ctx context.Context, c *coord.Client, key string) error { return ignore(c.Inspect(ctx, key)) },
	"Client.Break":    func(ctx context.Context, c *coord.Client, key string) error { return c.Break(ctx, key, "id") },
	"Client.BreakNow": func(ctx context.Context, c *coord.Client, key string) error { return c.BreakNow(ctx, key, "id") },
	"Do":              func(ctx context.Context, c *coord.Client, key string) error { return coord.Do(ctx, c, key, work) },
	"TryDo": func(ctx context.Context, c *coord.Client, key string) error {
		return ignore(coord.TryDo(ctx, c, key, work))
	},
	"DoAll": func(ctx context.Context, c *coord.Client, key string) error {
		return coord.DoAll(ctx, c, []string{"a", key}, work)
	},
	"TryDoAll": func(ctx context.Context, c *coord.Client, key string) error {
		return ignore(coord.TryDoAll(ctx, c, []string{key, "z"}, work))
	},
	"Lead": func(ctx context.Context, c *coord.Client, key string) error { return coord.Lead(ctx, c, key, work) },
	"Client.Watch": func(ctx context.Context, c *coord.Client, key string) error {
		for _, err := range c.Watch(ctx, key) {
			if !errors.Is(err, coord.ErrNotHeld) {
				return err
			}
			break
		}
		return nil
	},
	"Shared.Lock": func(ctx context.Context, c *coord.Client, key string) error {
		return ignore(c.Semaphore(2).Lock(ctx, key))
	},
	"Shared.TryLock": func(ctx context.Context, c *coord.Client, key string) error {
		return ignore(c.ReadWrite().Write().TryLock(ctx, key))
	},
	"Shared.Holders": func(ctx context.Context, c *coord.Client, key string) error {
		return ignore(c.ReadWrite().Read().Holders(ctx, key))
	},
	"Shared.Break": func(ctx context.Context, c *coord.Client, key string) error {
		return c.Semaphore(2).Break(ctx, key, "id")
	},
	"Shared.BreakNow": func(ctx context.Context, c *coord.Client, key string) error {
		return c.Semaphore(2).BreakNow(ctx, key, "id")
	},
	"Shared.Watch": func(ctx context.Context, c *coord.Client, key string) error {
		for _, err := range c.Semaphore(2).Watch(ctx, key) {
			return err
		}
		return nil
	},
	"Client.Cond":    func(ctx context.Context, c *coord.Client, key string) error { return c.Cond(key).Wait(ctx) },
	"Cond.Wait":      func(ctx context.Context, c *coord.Client, key string) error { return c.Cond(key).Wait(ctx) },
	"Cond.Signal":    func(ctx context.Context, c *coord.Client, key string) error { return c.Cond(key).Signal(ctx) },
	"Cond.Broadcast": func(ctx context.Context, c *coord.Client, key string) error { return c.Cond(key).Broadcast(ctx) },
}

// limitCalls are the calls that take a limit.
var limitCalls = map[string]func(ctx context.Context, c *coord.Client, l coord.Limit) error{
	"Client.Allow": func(ctx context.Context, c *coord.Client, l coord.Limit) error { return ignore(c.Allow(ctx, "k", l)) },
	"Client.AllowN": func(ctx context.Context, c *coord.Client, l coord.Limit) error {
		return ignore(c.AllowN(ctx, "k", l, 1))
	},
	"Client.AllowAtMost": func(ctx context.Context, c *coord.Client, l coord.Limit) error {
		return ignore(c.AllowAtMost(ctx, "k", l, 1))
	},
	"Client.AllowAll": func(ctx context.Context, c *coord.Client, l coord.Limit) error {
		return ignore(c.AllowAll(ctx, coord.Demand{Key: "k", Limit: l, N: 1}))
	},
	"Client.Peek": func(ctx context.Context, c *coord.Client, l coord.Limit) error { return ignore(c.Peek(ctx, "k", l)) },
	"Client.Reserve": func(ctx context.Context, c *coord.Client, l coord.Limit) error {
		return ignore(c.Reserve(ctx, "k", l, 1))
	},
	"Client.Charge": func(ctx context.Context, c *coord.Client, l coord.Limit) error {
		return ignore(c.Charge(ctx, "k", l, 1))
	},
	"Client.Settle": func(ctx context.Context, c *coord.Client, l coord.Limit) error {
		return c.Settle(ctx, "k", l, 1, 1)
	},
	"Client.Reset": func(ctx context.Context, c *coord.Client, l coord.Limit) error { return c.Reset(ctx, "k", l) },
	"Client.Wait":  func(ctx context.Context, c *coord.Client, l coord.Limit) error { return c.Wait(ctx, "k", l) },
	"Client.WaitN": func(ctx context.Context, c *coord.Client, l coord.Limit) error { return c.WaitN(ctx, "k", l, 1) },
}

// countCalls are the calls that take a number of permits.
var countCalls = map[string]func(ctx context.Context, c *coord.Client, n int) error{
	"Client.AllowN": func(ctx context.Context, c *coord.Client, n int) error { return ignore(c.AllowN(ctx, "k", second, n)) },
	"Client.AllowAtMost": func(ctx context.Context, c *coord.Client, n int) error {
		return ignore(c.AllowAtMost(ctx, "k", second, n))
	},
	"Client.AllowAll": func(ctx context.Context, c *coord.Client, n int) error {
		return ignore(c.AllowAll(ctx, coord.Demand{Key: "k", Limit: second, N: 1}, coord.Demand{Key: "l", Limit: second, N: n}))
	},
	"Client.Reserve": func(ctx context.Context, c *coord.Client, n int) error { return ignore(c.Reserve(ctx, "k", bucket, n)) },
	"Client.WaitN":   func(ctx context.Context, c *coord.Client, n int) error { return c.WaitN(ctx, "k", bucket, n) },
}

// lockCalls are the calls that take options of a lock.
var lockCalls = map[string]func(ctx context.Context, c *coord.Client, opts ...coord.LockOption) error{
	"Client.Lock": func(ctx context.Context, c *coord.Client, opts ...coord.LockOption) error {
		return ignore(c.Lock(ctx, "k", opts...))
	},
	"Client.TryLock": func(ctx context.Context, c *coord.Client, opts ...coord.LockOption) error {
		return ignore(c.TryLock(ctx, "k", opts...))
	},
	"Do": func(ctx context.Context, c *coord.Client, opts ...coord.LockOption) error {
		return coord.Do(ctx, c, "k", work, opts...)
	},
	"TryDo": func(ctx context.Context, c *coord.Client, opts ...coord.LockOption) error {
		return ignore(coord.TryDo(ctx, c, "k", work, opts...))
	},
	"DoAll": func(ctx context.Context, c *coord.Client, opts ...coord.LockOption) error {
		return coord.DoAll(ctx, c, []string{"j", "k"}, work, opts...)
	},
	"TryDoAll": func(ctx context.Context, c *coord.Client, opts ...coord.LockOption) error {
		return ignore(coord.TryDoAll(ctx, c, []string{"j", "k"}, work, opts...))
	},
	"Lead": func(ctx context.Context, c *coord.Client, opts ...coord.LockOption) error {
		return coord.Lead(ctx, c, "k", work, opts...)
	},
	"Shared.Lock": func(ctx context.Context, c *coord.Client, opts ...coord.LockOption) error {
		return ignore(c.ReadWrite().Read().Lock(ctx, "k", opts...))
	},
	"Shared.TryLock": func(ctx context.Context, c *coord.Client, opts ...coord.LockOption) error {
		return ignore(c.Semaphore(2).TryLock(ctx, "k", opts...))
	},
	"WithLockDefaults": func(_ context.Context, _ *coord.Client, opts ...coord.LockOption) error {
		return made(coord.WithLockDefaults(opts...))
	},
}

// oddCalls are those with arguments of their own kind.
var oddCalls = []badCall{
	{"Client.TryLock", "WaitAtMost", func(ctx context.Context, c *coord.Client) error {
		return ignore(c.TryLock(ctx, "k", coord.WaitAtMost(time.Second)))
	}, coord.ErrInvalid},
	{"Client.AllowAll", "too many demands", func(ctx context.Context, c *coord.Client) error {
		return ignore(c.AllowAll(ctx, make([]coord.Demand, coord.MaxDemands+1)...))
	}, coord.ErrInvalid},
	{"Client.AllowAll", "demands whose sum is above the limit", func(ctx context.Context, c *coord.Client) error {
		d := coord.Demand{Key: "k", Limit: second, N: 60}
		return ignore(c.AllowAll(ctx, d, d))
	}, coord.ErrExceedsBurst},
	{"Client.Charge", "-1 permits", func(ctx context.Context, c *coord.Client) error { return ignore(c.Charge(ctx, "k", second, -1)) }, coord.ErrInvalid},
	{"Client.Charge", "the most permits", func(ctx context.Context, c *coord.Client) error {
		return ignore(c.Charge(ctx, "k", second, math.MaxInt))
	}, coord.ErrInvalid},
	{"Client.Settle", "-1 permits estimated", func(ctx context.Context, c *coord.Client) error { return c.Settle(ctx, "k", second, -1, 1) }, coord.ErrInvalid},
	{"Client.Settle", "the least permits used", func(ctx context.Context, c *coord.Client) error {
		return c.Settle(ctx, "k", second, 1, math.MinInt)
	}, coord.ErrInvalid},
	{"Client.Settle", "too many permits estimated", func(ctx context.Context, c *coord.Client) error {
		return c.Settle(ctx, "k", second, coord.MaxCharge+1, 1)
	}, coord.ErrInvalid},
	{"Client.Reserve", "a window", func(ctx context.Context, c *coord.Client) error { return ignore(c.Reserve(ctx, "k", second, 1)) }, coord.ErrUnsupported},
	{"Client.List", "a prefix with NUL", func(ctx context.Context, c *coord.Client) error { return listed(ctx, c, "k\x00") }, coord.ErrInvalid},
	{"Client.List", "a prefix that is too long", func(ctx context.Context, c *coord.Client) error {
		return listed(ctx, c, strings.Repeat("k", coord.MaxKey+1))
	}, coord.ErrInvalid},
	{"Client.Break", "no id", func(ctx context.Context, c *coord.Client) error { return c.Break(ctx, "k", "") }, coord.ErrInvalid},
	{"Client.BreakNow", "no id", func(ctx context.Context, c *coord.Client) error { return c.BreakNow(ctx, "k", "") }, coord.ErrInvalid},
	{"Client.Break", "another's id", func(ctx context.Context, c *coord.Client) error {
		return whileHeld(ctx, c, func(*coord.Lock) error { return c.Break(ctx, "k", "\x00\n") })
	}, coord.ErrNotHeld},
	{"Client.BreakNow", "another's id", func(ctx context.Context, c *coord.Client) error {
		return whileHeld(ctx, c, func(*coord.Lock) error { return c.BreakNow(ctx, "k", "\x00\n") })
	}, coord.ErrNotHeld},
	{"Client.Semaphore", "of none", func(ctx context.Context, c *coord.Client) error {
		return ignore(c.Semaphore(0).TryLock(ctx, "k"))
	}, coord.ErrInvalid},
	{"Client.Semaphore", "of -1", func(ctx context.Context, c *coord.Client) error {
		return ignore(c.Semaphore(-1).Lock(ctx, "k"))
	}, coord.ErrInvalid},
	{"Client.Semaphore", "of the most", func(ctx context.Context, c *coord.Client) error {
		return ignore(c.Semaphore(math.MaxInt).TryLock(ctx, "k"))
	}, coord.ErrInvalid},
	{"Weight", "more than all", func(ctx context.Context, c *coord.Client) error {
		return ignore(c.Semaphore(2).TryLock(ctx, "k", coord.Weight(3)))
	}, coord.ErrExceedsBound},
	{"Weight", "of a writer", func(ctx context.Context, c *coord.Client) error {
		return ignore(c.ReadWrite().Write().TryLock(ctx, "k", coord.Weight(1)))
	}, coord.ErrInvalid},
	{"MaxWaiting", "none", func(ctx context.Context, c *coord.Client) error {
		return ignore(c.Lock(ctx, "k", coord.MaxWaiting(0)))
	}, coord.ErrInvalid},
	{"Shared.Held", "nil context", func(_ context.Context, c *coord.Client) error {
		c.Semaphore(2).Held(noContext, "k")
		return nil
	}, nil},
	{"Guard.CheckRead", "no token", func(context.Context, *coord.Client) error { return new(coord.Guard).CheckRead("k", 0) }, coord.ErrInvalid},
	{"Guard.CheckWrite", "no token", func(context.Context, *coord.Client) error { return new(coord.Guard).CheckWrite("k", -1) }, coord.ErrInvalid},
	{"Client.Overrides", "nil context", func(_ context.Context, c *coord.Client) error { return ignore(c.Overrides(noContext)) }, nil},
	{"Client.Ping", "nil context", func(_ context.Context, c *coord.Client) error { return c.Ping(noContext) }, nil},
	{"Lock.Context", "nil context", func(ctx context.Context, c *coord.Client) error {
		return whileHeld(ctx, c, func(l *coord.Lock) error { l.Context(noContext); return nil })
	}, nil},
	{"Do", "nil function", func(ctx context.Context, c *coord.Client) error { return coord.Do(ctx, c, "k", nil) }, nil},
	{"Do", "nil locker", func(ctx context.Context, _ *coord.Client) error { return coord.Do(ctx, nil, "k", work) }, nil},
	{"TryDo", "nil function", func(ctx context.Context, c *coord.Client) error { return ignore(coord.TryDo(ctx, c, "k", nil)) }, nil},
	{"DoAll", "nil function", func(ctx context.Context, c *coord.Client) error { return coord.DoAll(ctx, c, []string{"k"}, nil) }, nil},
	{"DoAll", "nil locker", func(ctx context.Context, _ *coord.Client) error { return coord.DoAll(ctx, nil, []string{"k"}, work) }, nil},
	{"DoAll", "no keys", func(ctx context.Context, c *coord.Client) error { return coord.DoAll(ctx, c, nil, work) }, coord.ErrInvalid},
	{"TryDoAll", "nil function", func(ctx context.Context, c *coord.Client) error {
		return ignore(coord.TryDoAll(ctx, c, []string{"k"}, nil))
	}, nil},
	{"TryDoAll", "no keys", func(ctx context.Context, c *coord.Client) error { return ignore(coord.TryDoAll(ctx, c, nil, work)) }, coord.ErrInvalid},
	{"Lead", "nil function", func(ctx context.Context, c *coord.Client) error { return coord.Lead(ctx, c, "k", nil) }, nil},
	{"Lead", "nil locker", func(ctx context.Context, _ *coord.Client) error { return coord.Lead(ctx, nil, "k", work) }, nil},
	{"Lead", "WaitAtMost", func(ctx context.Context, c *coord.Client) error {
		return coord.Lead(ctx, c, "k", work, coord.WaitAtMost(time.Second))
	}, coord.ErrInvalid},
	{"HolderName", "empty", func(ctx context.Context, c *coord.Client) error {
		return ignore(c.TryLock(ctx, "k", coord.HolderName("")))
	}, coord.ErrInvalid},
	{"HolderName", "two words", func(ctx context.Context, c *coord.Client) error {
		return ignore(c.TryLock(ctx, "k", coord.HolderName("a b")))
	}, coord.ErrInvalid},
	{"Lock.Unlock", "again", func(ctx context.Context, c *coord.Client) error {
		l, err := c.Lock(ctx, "k")
		if err != nil {
			return err
		}
		return errors.Join(l.Unlock(ctx), l.Unlock(ctx))
	}, coord.ErrNotHeld},
	{"Guard.Check", "token 0", func(context.Context, *coord.Client) error { return new(coord.Guard).Check("k", 0) }, coord.ErrInvalid},
	{"Guard.Do", "token -1", func(context.Context, *coord.Client) error { return new(coord.Guard).Do("k", -1, nil) }, coord.ErrInvalid},
	{"Guard.Do", "nil function", func(context.Context, *coord.Client) error {
		g := new(coord.Guard)
		defer func() {
			if err := g.Check("k", 2); err != nil { // it waits for ever if Do kept the mutex
				panic(err)
			}
		}()
		return g.Do("k", 1, nil)
	}, nil},
	{"New", "nil backend", func(context.Context, *coord.Client) error { return ignore(coord.New(nil)) }, coord.ErrInvalid},
	{"New", "nil option", func(context.Context, *coord.Client) error { return made(nil) }, nil},
	{"Open", "no URL", func(ctx context.Context, _ *coord.Client) error { return ignore(coord.Open(ctx, "memory:// ")) }, coord.ErrInvalid},
	{"Open", "unknown parameter", func(ctx context.Context, _ *coord.Client) error {
		return ignore(coord.Open(ctx, "memory:?what=1"))
	}, coord.ErrInvalid},
	{"ParseLimit", "no limit", func(context.Context, *coord.Client) error { return ignore(coord.ParseLimit("9e99/1m")) }, coord.ErrInvalid},
	{"WithOwner", "nil context", func(context.Context, *coord.Client) error { coord.WithOwner(noContext); return nil }, nil},
	{"Detach", "nil context", func(context.Context, *coord.Client) error { coord.Detach(noContext); return nil }, nil},
	{"Go", "nil context", func(context.Context, *coord.Client) error { coord.Go(noContext, func(context.Context) {}); return nil }, nil},
	{"Held", "nil context", func(context.Context, *coord.Client) error { coord.Held(noContext, "k"); return nil }, nil},
	{"WithFailurePolicy", "99", func(context.Context, *coord.Client) error { return made(coord.WithFailurePolicy(99)) }, coord.ErrInvalid},
	{"WithHolderName", "empty", func(context.Context, *coord.Client) error { return made(coord.WithHolderName("")) }, coord.ErrInvalid},
	{"WithHolderName", "two words", func(context.Context, *coord.Client) error { return made(coord.WithHolderName("a b")) }, coord.ErrInvalid},
	{"WithLogger", "nil", func(context.Context, *coord.Client) error { return made(coord.WithLogger(nil)) }, coord.ErrInvalid},
	{"WithPermitLease", "negative", func(context.Context, *coord.Client) error {
		return made(coord.WithPermitLease(coord.PermitLease{Max: -1}))
	}, coord.ErrInvalid},
	{"WithPrefix", "too long", func(context.Context, *coord.Client) error {
		return made(coord.WithPrefix(strings.Repeat("p", coord.MaxPrefix+1)))
	}, coord.ErrInvalid},
	{"WithPrefix", "not UTF-8", func(context.Context, *coord.Client) error { return made(coord.WithPrefix("\xff")) }, coord.ErrInvalid},
	{"WithRequired", "unknown claim", func(context.Context, *coord.Client) error { return made(coord.WithRequired("no-such")) }, coord.ErrInvalid},
	{"WithTokenFloor", "-1", func(context.Context, *coord.Client) error { return made(coord.WithTokenFloor(-1)) }, coord.ErrInvalid},
	{"WithTokenFloor", "the greatest", func(context.Context, *coord.Client) error { return made(coord.WithTokenFloor(math.MaxInt64)) }, coord.ErrInvalid},
}

// unrefusing are functions that take arguments and refuse none by themselves.
var unrefusing = map[string]string{
	"Override.Of": "it leaves alone what it cannot multiply",
	"Key":         "an empty key is refused by the call that it is given to", "Per": "a value", "PerSecond": "a value", "PerMinute": "a value", "PerHour": "a value",
	"TTL": "judged by the lock call", "WaitAtMost": "judged by the lock call", "MaxHold": "judged by the lock call", "MinHold": "judged by the lock call",
	"WithObserver": "every field is optional", "Reservation.Cancel": "takes a context alone, and does nothing when it has nothing to give back",
	"Client.Shutdown": "takes a context alone; the client takes no more locks whatever it is",
	"Client.Describe": "takes a context alone, which the driver judges",
	"Client.Check":    "takes a context alone, which the driver judges",
}

func ignore[T any](_ T, err error) error { return err }

// made makes a client with an option.
func made(o coord.Option) error {
	c, err := coord.New(memory.New(), o)
	if err == nil {
		return c.Close()
	}
	return err
}

// whileHeld calls fn while "k" is held.
func whileHeld(ctx context.Context, c *coord.Client, fn func(*coord.Lock) error) (err error) {
	l, err := c.Lock(ctx, "k")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Unlock(ctx)) }()
	return fn(l)
}

// farStore is the memory store without its shortcuts: as if it were on the network.
type farStore struct{ fullStore }

func (f farStore) Info() driver.Info {
	info := f.fullStore.Info()
	info.Claims = append(slices.DeleteFunc(slices.Clone(info.Claims), func(c driver.Claim) bool { return c == driver.ScopeProcess }), driver.ScopeHosts)
	return info
}

type fullStore = driver.Backend

// stores are the ways of the core to a store.
var stores = map[string]func(*memory.Store) driver.Backend{
	"here": func(s *memory.Store) driver.Backend { return s.Open() },
	"far":  func(s *memory.Store) driver.Backend { return farStore{s.Open()} },
}

// A bad call gives a typed error and changes nothing: after it, everything works.
func TestBadCallers(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			store := memory.NewStore()
			for _, bad := range badCalls() {
				c := newQuietClient(t, open(store))
				panicked, err := outcomeOf(func() error { return bad.call(t.Context(), c) })
				var full *coord.Error
				switch {
				case bad.want == nil && panicked == nil && err == nil:
					t.Errorf("%s, %s: saw no error and no panic", bad.of, bad.what)
				case bad.want != nil && panicked != nil:
					t.Errorf("%s, %s: saw the panic %v, want an error that is %q", bad.of, bad.what, panicked, bad.want)
				case bad.want != nil && (!errors.Is(err, bad.want) || !errors.As(err, &full)):
					t.Errorf("%s, %s: saw error %v, want an *Error that is %q", bad.of, bad.what, err, bad.want)
				}
				stillWorks(t, bad.of+", "+bad.what, c, store)
			}
		})
	}
}

// newQuietClient makes a client that logs nothing.
func newQuietClient(t *testing.T, b driver.Backend, opts ...coord.Option) *coord.Client {
	t.Helper()
	c, err := coord.New(b, append([]coord.Option{coord.WithLogger(slog.New(slog.DiscardHandler))}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// outcomeOf calls fn and gives what it returned, or with what it panicked.
func outcomeOf(fn func() error) (panicked any, err error) {
	defer func() { panicked = recover() }()
	return nil, fn()
}

// stillWorks makes every kind of valid call, closes c, and looks whether anything is still locked.
func stillWorks(t *testing.T, after string, c *coord.Client, store *memory.Store) {
	t.Helper()
	inPatience(t, after, func(ctx context.Context) error {
		return errors.Join(validCalls(ctx, c), c.Close(), isFree(ctx, store))
	})
}

// inPatience fails the test for good if fn does not return: a goroutine waits for a mutex.
func inPatience(t *testing.T, after string, fn func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- fn(ctx) }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("after %s: saw %v from calls that are valid", after, err)
		}
	case <-time.After(2 * patience):
		t.Fatalf("after %s: calls that are valid do not return", after)
	}
}

// validCalls makes calls that succeed, unless something is still locked.
func validCalls(ctx context.Context, c *coord.Client) error {
	demand := coord.Demand{Key: "valid", Limit: second, N: 1}
	reserve := func() error {
		r, err := c.Reserve(ctx, "valid", bucket, 1)
		if err != nil {
			return err
		}
		return r.Cancel(ctx)
	}
	_, inspected := c.Inspect(ctx, "valid")
	if errors.Is(inspected, coord.ErrNotHeld) {
		inspected = nil
	}
	return errors.Join(
		whileHeld(ctx, c, func(l *coord.Lock) error { return l.Err() }),
		coord.Do(ctx, c, "k", work, coord.Fair()),
		coord.Do(ctx, c.Semaphore(2), "k", work, coord.Weight(2)),
		coord.Do(ctx, c.ReadWrite().Write(), "k", work),
		ignore(c.Allow(ctx, "k", second)),
		ignore(c.AllowAll(ctx, demand, coord.Demand{Key: "k", Limit: second, N: 1})),
		c.Wait(ctx, "k", bucket),
		c.Wait(ctx, "k", second),
		reserve(),
		ignore(c.Peek(ctx, "k", second)),
		c.Reset(ctx, "k", second),
		c.LeasePermits(coord.PermitLease{}, second),
		c.LeasePermits(coord.PermitLease{Max: 1}, second),
		inspected,
		c.Ping(ctx),
	)
}

// isFree takes "k" as another client would.
func isFree(ctx context.Context, store *memory.Store) error {
	other, err := coord.New(store.Open(), coord.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	return errors.Join(whileHeld(ctx, other, func(l *coord.Lock) error { return l.Err() }), other.Close())
}

// The table names every function that takes an argument.
func TestBadCallersCoverTheAPI(t *testing.T) {
	covered := make(map[string]bool)
	for _, bad := range badCalls() {
		covered[bad.of] = true
	}
	for _, name := range takingArguments(t) {
		_, exempt := unrefusing[name]
		if covered[name] == exempt {
			t.Errorf("%s: in the table of bad calls %v, said to refuse nothing %v: want one of these", name, covered[name], exempt)
		}
	}
}

// takingArguments lists the exported functions of the package that take arguments.
func takingArguments(t *testing.T) (names []string) {
	t.Helper()
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || !fn.Name.IsExported() || fn.Type.Params.NumFields() == 0 {
				continue
			}
			name := fn.Name.Name
			if fn.Recv != nil {
				of := receiver(fn.Recv.List[0].Type)
				if !ast.IsExported(of) {
					continue
				}
				name = of + "." + name
			}
			names = append(names, name)
		}
	}
	return names
}

func receiver(e ast.Expr) string {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// listed is the error at the end of List.
func listed(ctx context.Context, c *coord.Client, prefix string) (err error) {
	for _, failed := range c.List(ctx, prefix) {
		err = failed
	}
	return err
}
