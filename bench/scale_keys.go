package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord"
)

func keysGrowing() *growing {
	return &growing{
		name: "keys", title: "Keys of a limit", item: "keys",
		about: "One client asks a limit (a sliding window of an hour, never denied) for one permit of each of more and more keys, and then decides on keys drawn at random among them, with one goroutine. " +
			"*Client* and *store* are what each key takes, as above. *leased* is a client with `WithPermitLease`, of which each key has a lease of its own, for as long as it is asked for several permits while a lease lasts (100 ms here): " +
			"of few keys a decision is a permit of a lease, of very many it is a request, as without leases, and that is what it is compared with.",
		takes: func(string) bool { return true }, subjects: []string{"coord", "leased"}, measure: keys,
		chief: "store_B", axis: "bytes in the store for each key (memory://: none, it is in the client)",
		columns: []column{
			{"one_us", "a decision, µs"}, {"first_s", "first asks a second, 64 goroutines"}, {"client_B", "client, B each"}, {"store_B", "store, B each"},
		},
		rules: []rule{
			{timed: true, figure: "one_us", what: "one decision among the keys, µs", floor: 1, atMost: 3, unlike: map[string]string{"leased": "coord"}},
			{figure: "client_B", what: "client memory for a key, B", floor: 500, atMost: 2.5},
			{figure: "store_B", what: "store memory for a key, B", floor: 64, grain: heapGrain, atMost: 2},
		},
	}
}

// ample is a limit that denies nothing.
var ample = coord.Limit{Rate: 1_000_000_000, Per: time.Hour}

// claimed reports whether a store has what a subject of a series needs.
func claimed(store, subject string) bool {
	switch subject {
	case "fair":
		return fairStore(store)
	case "leased": // the client's part is the same on every store
		return store == "redis"
	}
	return true
}

func keys(ctx context.Context, s *scaler, st *store, series *Series) error {
	var opts []coord.Option
	if series.Subject == "leased" {
		opts = append(opts, coord.WithPermitLease(coord.PermitLease{}))
	}
	c, err := coord.Open(ctx, st.url(), opts...)
	if err != nil {
		return err
	}
	defer closing(c)
	err = inParallel(ctx, workers, 4*workers, func(i int) error { return allow(ctx, c, "warm") })
	if err != nil {
		return err
	}
	last, err := weigh(ctx, st, 0)
	if err != nil {
		return err
	}
	n := 0
	for _, step := range s.size.steps(st.name) {
		f := figures{}
		began := time.Now()
		end := began.Add(s.size.box)
		var asked atomic.Int64
		err := inParallel(ctx, workers, step-n, func(i int) error {
			if time.Now().After(end) {
				return nil
			}
			asked.Add(1)
			return allow(ctx, c, fmt.Sprintf("key-%07d", n+i))
		})
		if err != nil {
			return err
		}
		f["first_s"] = float64(asked.Load()) / time.Since(began).Seconds()
		n += int(asked.Load())
		now, err := weigh(ctx, st, n)
		if err != nil {
			return err
		}
		now.each(f, last)
		last = now
		if f["one_us"], err = oneDecision(ctx, c, n); err != nil {
			return err
		}
		s.point(series, n, f)
		if n < step {
			series.Stopped = fmt.Sprintf("%d were not asked for within %v", step, s.size.box)
			break
		}
	}
	return nil
}

func allow(ctx context.Context, c *coord.Client, key string) error {
	r, err := c.Allow(ctx, key, ample)
	if err == nil && !r.Allowed {
		err = errors.New("denied")
	}
	return err
}

// oneDecision is the time of one among n keys, of which one goroutine asks for one after the other.
func oneDecision(ctx context.Context, c *coord.Client, n int) (float64, error) {
	const batch = 50
	drawn := make([]string, 4096)
	for i := range drawn {
		drawn[i] = fmt.Sprintf("key-%07d", rand.IntN(n))
	}
	took := 0
	began := time.Now()
	for end := began.Add(400 * time.Millisecond); time.Now().Before(end) && ctx.Err() == nil; {
		for range batch {
			if err := allow(ctx, c, drawn[took%len(drawn)]); err != nil {
				return 0, err
			}
			took++
		}
	}
	if took == 0 {
		return 0, errNothing
	}
	return micros(time.Since(began)) / float64(took), nil
}
