package sim

import (
	"context"
	"time"

	"github.com/coordgo/coord"
)

// The limits of a run. Each key is used under one.
var (
	sliding = coord.Per(20, time.Second)
	fixed   = coord.Limit{Rate: 20, Per: time.Second, Algorithm: coord.FixedWindow}
	bucket  = coord.Limit{Rate: 10, Per: time.Second, Burst: 15}
)

var limited = map[string]coord.Limit{"sliding": sliding, "fixed": fixed, "bucket": bucket, "charged": bucket, "both": bucket}

func (k *worker) limited() string {
	return []string{"sliding", "fixed", "bucket", "bucket"}[k.rand.IntN(4)]
}

// spent notes permits that were certainly granted between two moments.
func (k *worker) spent(key string, n int, from, to time.Time, charged bool) {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	k.w.had += n
	k.w.of[key] = append(k.w.of[key], spend{n, from.Sub(k.w.began), to.Sub(k.w.began), charged})
}

// allow asks for some permits.
func (k *worker) allow(ctx context.Context) {
	key, n, from := k.limited(), 1+k.rand.IntN(4), time.Now()
	ctx, cancel := k.patient(ctx)
	defer cancel()
	ask, atMost := k.c.AllowN, k.rand.IntN(3) == 0
	if atMost {
		ask = k.c.AllowAtMost
	}
	r, err := ask(ctx, key, limited[key], n)
	k.inTime(ctx, "allow")
	switch k.ends("allow "+key, err); {
	case err != nil:
		k.failed(key, n, from)
	case r.Allowed:
		k.spent(key, r.Granted, from, time.Now(), false)
		k.asked(key, n, r.Granted, atMost)
	default:
		k.denied(key, n, from, atMost)
	}
}

// wait waits for a permit.
func (k *worker) wait(ctx context.Context) {
	key, n, from := k.limited(), 1+k.rand.IntN(3), time.Now()
	ctx, cancel := k.patient(ctx)
	defer cancel()
	err := k.c.WaitN(ctx, key, limited[key], n)
	k.inTime(ctx, "wait")
	if k.ends("wait "+key, err, coord.ErrLimited); err != nil {
		k.failed(key, n, from)
		return
	}
	k.spent(key, n, from, time.Now(), false)
}

// reserve takes permits that are due later, and may give them back.
func (k *worker) reserve(ctx context.Context) {
	n, from := 1+k.rand.IntN(5), time.Now()
	ctx, cancel := k.patient(ctx)
	defer cancel()
	r, err := k.c.Reserve(ctx, "bucket", bucket, n)
	k.inTime(ctx, "reserve")
	if k.ends("reserve", err, coord.ErrLimited); err != nil {
		return
	}
	if k.rand.IntN(2) == 0 {
		uses(ctx, k.upTo(100*time.Millisecond))
		if due := r.Delay() > 0; due {
			k.ends("cancel", r.Cancel(ctx))
			return
		}
	}
	k.spent("bucket", n, from, time.Now().Add(r.Delay()), false) // they were due when the store said, before the reply was here
}

// charge debits permits after they were used.
func (k *worker) charge(ctx context.Context) {
	n, from := k.rand.IntN(8), time.Now()
	ctx, cancel := k.patient(ctx)
	defer cancel()
	if k.rand.IntN(2) == 0 {
		r, err := k.c.AllowN(ctx, "charged", bucket, 1+n/4)
		if k.ends("allow charged", err); err == nil && r.Allowed {
			k.spent("charged", r.Granted, from, time.Now(), false)
		}
		return
	}
	_, err := k.c.Charge(ctx, "charged", bucket, n)
	k.inTime(ctx, "charge")
	if k.ends("charge", err); err == nil && n > 0 {
		k.spent("charged", n, from, time.Now(), true)
	}
}

// allowAll takes permits of two limits, or none.
func (k *worker) allowAll(ctx context.Context) {
	from := time.Now()
	ctx, cancel := k.patient(ctx)
	defer cancel()
	demands := []coord.Demand{{Key: "sliding", Limit: sliding, N: 1}, {Key: "both", Limit: bucket, N: 2}}
	r, err := k.c.AllowAll(ctx, demands...)
	k.inTime(ctx, "allowall")
	if k.ends("allowall", err); err != nil {
		k.failed("sliding", 1, from)
		return
	}
	if r[0].Allowed != r[1].Allowed {
		k.w.mu.Lock()
		defer k.w.mu.Unlock()
		k.w.violate("limit", "%s had one of two limits", k.name)
		return
	}
	if r[0].Allowed {
		k.spent("sliding", 1, from, time.Now(), false)
		k.spent("both", 2, from, time.Now(), false)
	}
}
