package conformance

import (
	"context"
	"sync"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/observe"
)

func permitLeaseCases() []Case {
	return []Case{
		{
			ID: "LIMIT-51", Name: "leased-permits-keep-the-bound", Clause: "R7", run: leaseBound,
			Why:    "a client that has taken permits in advance, and spends them together with what others are granted, exceeds the limit",
			Remedy: "set ValidFor to how long a permit may be spent late without a period holding more than the rate: to the end of its sub-window",
		}, {
			ID: "LIMIT-52", Name: "leased-permits-are-accounted-for", Clause: "R7", run: leaseAccounts,
			Why:    "what was taken in advance and is given back must be what was not spent, once",
			Remedy: "Refund gives back at most what the ask was granted, once for each id; a partial grant debits what it grants",
		},
	}
}

// elsewhere is a store that does not say that it is in this process, where clients lease
// nothing.
type elsewhere struct{ driver.Backend }

func (s elsewhere) Info() driver.Info {
	info := s.Backend.Info()
	info.Claims = info.Claims.Without(driver.ScopeProcess)
	return info
}

func (e *env) lessee(opts ...coord.Option) *coord.Client {
	return e.clientOn(elsewhere{e.open()}, opts...)
}

// leaseBound: a lessee has a lease, waits for longer than a sub-window, and then spends what it
// can, while another client takes all that it is granted, for longer than a period.
// How much it has when it waits is by chance: three do so at once.
func leaseBound(e *env) {
	parts(e, []string{"lessee 0", "lessee 1", "lessee 2"}, (*env).leaseKeepsBound)
}

func (e *env) leaseKeepsBound(name string) {
	const rate, per, each = 4000, time.Second, 5
	limit, key := algorithms(rate, per)["sliding window"], e.key(name)
	lessee := e.lessee(coord.WithPermitLease(coord.PermitLease{For: 10 * time.Second, Lessees: 1}))
	greedy := e.open()
	var spends []spend
	ask := func(n int) {
		sent := time.Now()
		r, err := lessee.AllowAtMost(e.within(soon), key, limit, n)
		e.noError(err, "AllowAtMost of a lessee")
		if r.Granted > 0 {
			spends = append(spends, spend{sent, time.Now(), r.Granted})
		}
	}
	// A client counts what is used in as long a time as a lease lasts, 10 ms here, and leases no fewer than 16.
	for end := time.Now().Add(per / 5); time.Now().Before(end); {
		ask(each)
		e.pass(time.Millisecond)
	}
	e.pass(per / 10)
	ask(rate / 8) // of what it has, before it has more
	for range rate / each / 8 {
		ask(each)
	}
	for end := time.Now().Add(per + per/5); time.Now().Before(end); {
		if a := e.ask(greedy, key, limit, 1, rate); a.N > 0 {
			spends = append(spends, spend{a.sent, a.came, a.N})
		}
		e.pass(2 * time.Millisecond)
	}
	most := mostWithin(spends, per-time.Microsecond)
	if most > rate {
		e.Errorf("%v, with permits that were leased and kept for %v: saw %d granted within %v, want at most %d", limit, per/10, most, per, rate)
	}
}

func total(spends []spend) (n int) {
	for _, s := range spends {
		n += s.n
	}
	return n
}

// leaseAccounts: what the store has debited in the end is what lessees have spent, and what they
// have lost.
func leaseAccounts(e *env) {
	for name, limit := range still(100_000) {
		if limit.Algorithm == driver.TokenBucket {
			continue // too small to lease, and takes nothing back
		}
		key := e.key(name)
		var mu sync.Mutex
		granted, lost, ended := 0, 0, 0
		observer := coord.WithObserver(observe.Observer{LeaseEnded: func(_ context.Context, l observe.LeaseEnded) {
			mu.Lock()
			defer mu.Unlock()
			lost, ended = lost+l.Wasted, ended+1
		}})
		var wg sync.WaitGroup
		var clients []*coord.Client
		for range 2 {
			c := e.lessee(coord.WithPermitLease(coord.PermitLease{}), observer)
			clients = append(clients, c)
			for n := range 3 {
				wg.Go(func() {
					for end := time.Now().Add(150 * time.Millisecond); time.Now().Before(end); {
						r, err := c.AllowAtMost(e.within(soon), key, limit, 1+n)
						if err != nil {
							e.Errorf("AllowAtMost of a lessee under %s: saw %v, want an answer", name, err)
							return
						}
						mu.Lock()
						granted += r.Granted
						mu.Unlock()
						time.Sleep(100 * time.Microsecond)
					}
				})
			}
		}
		wg.Wait()
		for _, c := range clients {
			e.gaveBack(c.Close(), "Close of a lessee")
		}
		a := e.ask(e.open(), key, limit, 0, 0)
		// The requests that come just as a lease ends, at most one of each goroutine, may count as
		// spent, and have got nothing of it.
		least, most := granted+lost, granted+lost+ended*(1+2+3)
		if debited := limit.Rate - a.Remaining; debited < least || debited > most {
			e.Errorf("two lessees under %s: saw %d permits debited in the end, want %d to %d, which are %d spent and %d lost in %d leases", name, debited, least, most, granted, lost, ended)
		}
	}
}
