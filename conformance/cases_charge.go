package conformance

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
)

func chargeCases() []Case {
	return []Case{
		{
			ID: "LIMIT-271", Name: "charge-is-debited-whatever-is-left", Clause: "R10", run: chargeIsADebt, Proves: driver.Charge,
			Why:    "a cost that is known only afterwards and does not fit is dropped, and the limit is exceeded for ever (praxis 120, tensorzero 6536)",
			Remedy: "debit the whole charge in one step, also beyond the limit, or do not claim charge",
		}, {
			ID: "LIMIT-272", Name: "charges-add-up", Clause: "R10", run: chargesAddUp, Needs: driver.Claims{driver.Charge},
			Why:    "a charge that reads and then writes loses others that come at the same time",
			Remedy: "decide and write in one atomic step of the store",
		}, {
			ID: "LIMIT-273", Name: "what-was-not-used-is-given-back", Clause: "R10", run: chargeGivenBack, Needs: driver.Claims{driver.Charge},
			Why:    "an estimate that was too high denies others what nobody uses; one that is given back twice mints permits",
			Remedy: "give back exactly n, and no more than is missing",
		}, {
			ID: "LIMIT-274", Name: "debt-is-seen-under-every-burst", Clause: "R10", run: debtOfEveryBurst, Needs: driver.Claims{driver.Charge, driver.Reserve},
			Why:    "a debt that a read clips to the burst, or that a refund of something else erases, is never repaid",
			Remedy: "store until when a debt lasts beside the reservations, as driver/limits does",
		}, {
			ID: "LIMIT-277", Name: "large-charges-do-not-overflow", Clause: "R10", run: largeCharges, Needs: driver.Claims{driver.Charge},
			Why:    "a debt that overflows is a credit, and one that does not parse any more locks the key for ever",
			Remedy: "let the debt saturate, and refuse what is above driver.MaxCharge with ErrInvalid",
		}, {
			ID: "LIMIT-278", Name: "wrong-estimates-keep-the-bound", Clause: "R10", run: wrongEstimates, Needs: driver.Claims{driver.Charge},
			Why:    "calls whose estimates are wrong use more than the limit in the long run",
			Remedy: "let a charge count at once, for all clients",
		},
	}
}

// indebted is still for limits that go into debt: a bucket's is bounded by what it refills in a year.
func indebted(n int) map[string]driver.Limit {
	all := still(n)
	all["token bucket"] = normal(driver.Limit{Rate: 1, Per: time.Hour, Burst: n, Algorithm: driver.TokenBucket})
	return all
}

// charged is the answer to a charge, and when it was sent and came.
type charged struct {
	driver.Charged
	sent, came time.Time
}

func (e *env) charge(l driver.Limiter, key string, limit driver.Limit, n int) charged {
	sent := time.Now()
	c, err := l.Charge(e.within(soon), key, limit, n)
	came := time.Now()
	e.noError(err, "Charge under "+limit.String())
	if c.Remaining < 0 || c.Remaining > limit.Max() || c.RetryAfter < 0 || c.ResetAfter < 0 || (c.Remaining > 0) != (c.RetryAfter == 0) {
		e.Errorf("Charge under %v: saw %+v, want 0 to %d permits, and a RetryAfter if there are none", limit, c, limit.Max())
	}
	return charged{c, sent, came}
}

// remains fails the case unless a charge left n permits.
func (e *env) remains(n, want int, what string) {
	if n != want {
		e.Errorf("left after %s: saw %d, want %d", what, n, want)
	}
}

func chargeIsADebt(e *env) {
	l, other := e.open(), e.open()
	for name, limit := range indebted(50) {
		key := e.key(name)
		e.grantedN(e.ask(l, key, limit, 20, 20), 20, "20 of a fresh key under "+name)
		e.remains(e.charge(l, key, limit, 10).Remaining, 20, "20 granted and 10 charged of 50 under "+name)
		e.remains(e.ask(other, key, limit, 0, 0).Remaining, 20, "the same, as another client sees it, under "+name)
		if c := e.charge(l, key, limit, 200); c.RetryAfter <= 0 || c.Remaining != 0 {
			e.Errorf("a charge of 200 where 20 are left under %s: saw %+v, want none left and a RetryAfter", name, c.Charged)
		}
		e.grantedN(e.ask(other, key, limit, 1, 1), 0, "an ask in debt under "+name)
		e.remains(e.charge(l, key, limit, 0).Remaining, 0, "a charge of nothing under "+name)
	}
	e.attempts("repaid", func(key string, guard time.Duration) bool {
		limit := normal(driver.Limit{Rate: 10, Per: time.Second, Burst: 10})
		c := e.charge(l, key, limit, 20)
		const repaid = 1100 * time.Millisecond // 11 of the 20 have to come back for one of 10 to be there
		if c.RetryAfter > repaid || c.RetryAfter < repaid-time.Millisecond {
			e.Errorf("RetryAfter of a charge of 20 on a fresh bucket of 10 at 10/s: saw %v, want %v", c.RetryAfter, repaid)
		}
		probe, late, judged := e.probed(asked{sent: c.sent, came: c.came}, c.RetryAfter, guard, func() asked { return e.ask(other, key, limit, 1, 1) })
		if judged {
			e.grantedN(probe, 0, "an ask before the debt is repaid")
			e.grantedN(late, 1, "an ask of a lone caller when the debt is repaid")
		}
		return judged
	})
}

func chargesAddUp(e *env) {
	const clients, goroutines, each = 3, 4, 5
	for name, limit := range indebted(100) {
		key := e.key(name)
		crowd(clients, goroutines, e.open, func(l driver.Backend, _, _ int) {
			for range each {
				if _, err := l.Charge(e.within(soon), key, limit, 1); err != nil {
					e.Errorf("Charge among many: saw %v, want nil", err)
				}
			}
		})
		const sum = clients * goroutines * each
		e.remains(e.ask(e.open(), key, limit, 0, 0).Remaining, 100-sum, "60 charges of one permit, by many at once, of 100 under "+name)
	}
}

func chargeGivenBack(e *env) {
	l, other := e.open(), e.open()
	for name, limit := range indebted(50) {
		key := e.key(name)
		e.remains(e.charge(l, key, limit, -7).Remaining, 50, "a return to a fresh key under "+name)
		e.grantedN(e.ask(l, key, limit, 30, 30), 30, "30 of 50 under "+name)
		e.remains(e.charge(l, key, limit, -10).Remaining, 30, "30 granted and 10 given back of 50 under "+name)
		e.charge(l, key, limit, 100)
		e.remains(e.charge(l, key, limit, -100).Remaining, 30, "100 charged and given back under "+name)
		e.remains(e.charge(l, key, limit, -1000).Remaining, 50, "more given back than was missing under "+name)
		e.grantedN(e.ask(other, key, limit, 50, 50), 50, "all of 50, which are back, under "+name)
		e.grantedN(e.ask(other, key, limit, 1, 1), 0, "one more under "+name)
	}
}

// debtOfEveryBurst is about buckets of one rate, which share an account.
func debtOfEveryBurst(e *env) {
	l := e.open()
	burst := func(n int) driver.Limit { return normal(driver.Limit{Rate: 1, Per: time.Minute, Burst: n}) }
	small, middle, large := burst(1), burst(10), burst(50)
	key, id := e.key("k"), e.newID()
	began := time.Now()
	e.charge(l, key, middle, 40)
	// near fails the case unless a permit is there in so many minutes, of which some time may have passed.
	near := func(limit driver.Limit, minutes int, what string) {
		a := e.ask(l, key, limit, 0, 0)
		want := time.Duration(minutes) * time.Minute
		if a.RetryAfter > want || a.RetryAfter < want-a.came.Sub(began)-time.Millisecond {
			e.Errorf("RetryAfter %s, under a burst of %d: saw %v, want %v less what has passed", what, limit.Burst, a.RetryAfter, want)
		}
	}
	near(middle, 31, "after a charge of 40 on a burst of 10")
	near(small, 31, "after the same charge")
	e.remains(e.ask(l, key, large, 0, 0).Remaining, 10, "a charge of 40 as a burst of 50 sees it")
	held := e.askFor(l, key, middle, driver.Ask{ID: id, Min: 5, N: 5, MaxDelay: time.Hour})
	e.grantedN(held, 5, "5 that are due behind the debt")
	e.noError(l.Refund(e.within(soon), key, middle, id, 5), "Refund")
	near(middle, 31, "after a charge of 40, and 5 reserved and given back")
	near(small, 31, "after the same")
}

func largeCharges(e *env) {
	l := e.open()
	limits := algorithms(10, time.Hour)
	limits["large token bucket"] = normal(driver.Limit{Rate: driver.MaxRate, Per: year})
	limits["slow token bucket"] = normal(driver.Limit{Rate: 1, Per: year, Burst: 10})
	for name, limit := range limits {
		key := e.key(name)
		for range 5 {
			if c := e.charge(l, key, limit, driver.MaxCharge); c.Remaining != 0 {
				e.Errorf("left after the largest charge under %s: saw %d, want 0", name, c.Remaining)
			}
		}
		e.grantedN(e.ask(l, key, limit, 1, 1), 0, "an ask after the largest charges under "+name)
		for _, n := range []int{driver.MaxCharge + 1, -driver.MaxCharge - 1} {
			_, err := l.Charge(e.within(soon), key, limit, n)
			e.wantError(err, "a charge beyond the largest", driver.ErrInvalid)
		}
		e.noError(l.Reset(e.within(soon), key, limit), "Reset of a key in debt")
		e.remains(e.ask(l, key, limit, 0, 0).Remaining, limit.Max(), "Reset of a key in debt under "+name)
	}
}

// wrongEstimates has clients take what they estimate, and settle what they used.
func wrongEstimates(e *env) {
	const clients, most, per = 4, 200, 400 * time.Millisecond
	for name, limit := range map[string]driver.Limit{
		"sliding window": normal(driver.Limit{Rate: 1000, Per: per}),
		"token bucket":   normal(driver.Limit{Rate: 1000, Per: per, Burst: 500}),
	} {
		e.scopeOf(name, func(e *env) {
			key, until := e.key(name), time.Now().Add(3*per)
			var mu sync.Mutex
			var grants, charges []spend
			note := func(list *[]spend, s spend) {
				mu.Lock()
				defer mu.Unlock()
				*list = append(*list, s)
			}
			var wg sync.WaitGroup
			for i := range clients {
				c := e.client()
				rnd := rand.New(rand.NewPCG(1, uint64(i)))
				wg.Go(func() {
					for time.Now().Before(until) {
						estimated := 1 + rnd.IntN(most)
						sent := time.Now()
						r, err := c.AllowN(e.within(soon), key, limit, estimated)
						switch {
						case err != nil:
							e.Errorf("AllowN: saw %v, want an answer", err)
							return
						case !r.Allowed:
							rest(e.ctx, min(r.RetryAfter, 50*time.Millisecond))
							continue
						}
						note(&grants, spend{sent, time.Now(), estimated})
						rest(e.ctx, time.Duration(rnd.IntN(5))*time.Millisecond)
						used := rnd.IntN(2 * most)
						sent = time.Now()
						if err := c.Settle(e.within(soon), key, limit, estimated, used); err != nil {
							e.Errorf("Settle: saw %v, want nil", err)
							return
						}
						note(&charges, spend{sent, time.Now(), used - estimated})
					}
				})
			}
			wg.Wait()
			over := overCharged(grants, charges, limit)
			if over > 0 {
				e.Errorf("%v, of which %d were granted and then charged %d: saw a grant %d above the bound, counted with what was charged before", limit, total(grants), total(charges), over)
			}
		})
	}
}

// overCharged is by how many permits a grant was above the bound, at least, in the worst period that ends with it:
// with what was certainly charged in it before, and less what may have been given back.
func overCharged(grants, charges []spend, l driver.Limit) int {
	worst := -l.Max()
	for _, last := range grants {
		// Periods that begin with one of the events before.
		for _, first := range slices.Concat(grants, charges) {
			if first.n < 0 || first.from.After(last.from) {
				continue
			}
			length := last.to.Sub(first.from)
			bound := l.Rate
			if l.Algorithm == driver.TokenBucket {
				bound = l.Burst + int(float64(l.Rate)*float64(length+time.Microsecond)/float64(l.Per)) + 1
			} else if length >= l.Per {
				continue
			}
			worst = max(worst, sumWithin(grants, charges, first.from, last)-bound)
		}
	}
	return worst
}

func sumWithin(grants, charges []spend, begin time.Time, last spend) (sum int) {
	for _, g := range grants {
		if !g.from.Before(begin) && !g.to.After(last.to) {
			sum += g.n
		}
	}
	for _, c := range charges {
		switch certain := !c.from.Before(begin) && c.to.Before(last.from); {
		case c.n > 0 && certain, c.n < 0 && !c.to.Before(begin) && !c.from.After(last.to):
			sum += c.n
		}
	}
	return sum
}

// useCharge charges and gives back: each is made once, or not at all.
func useCharge(f *faultRun, limit driver.Limit) {
	f.grantedN(f.ask(f.rival, f.k, limit, 5, 5), 5, "5 of a fresh key")
	possible := []int{limit.Max() - 5}
	after := func(n int, err error) {
		var next []int
		for _, left := range possible {
			if err != nil {
				next = append(next, left)
			}
			if !errors.Is(err, driver.ErrNotSent) {
				next = append(next, left-n)
			}
		}
		possible = next
	}
	after(7, f.call("Charge", func(ctx context.Context) error {
		_, err := f.c.Charge(ctx, f.k, limit, 7)
		return err
	}))
	after(-3, f.call("Settle", func(ctx context.Context) error { return f.c.Settle(ctx, f.k, limit, 5, 2) }))
	if left := f.ask(f.rival, f.k, limit, 0, 0).Remaining; !slices.Contains(possible, left) {
		f.Errorf("left of %v after 5 granted, 7 charged and 3 given back, each at most once: saw %d, want one of %v", limit, left, possible)
	}
}
