package server

import (
	"context"
	"sync"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/observe"
)

// Decisions counts what the limits of a client decide, for the page of a [Server]: give its Observer to the client, and
// it to [Options]. The zero value counts from nothing. It is safe for concurrent use, and of bounded size.
type Decisions struct {
	mu    sync.Mutex
	began time.Time // of the period now
	now   period
	last  period // the one before
}

// period is what was decided in so much time.
type period struct {
	all      tally
	accounts map[counted]*tally
}

const periodTime = 10 * time.Second

// counted is an account: a limit under a key.
type counted struct {
	key   string
	limit coord.Limit
}

type tally struct{ allowed, denied int }

func (t *tally) add(more tally) { t.allowed += more.allowed; t.denied += more.denied }

// maxAccounts bounds the accounts of a period. So many more are counted if they deny, which is what people look for.
const maxAccounts = 1000

// Observer is for [coord.WithObserver].
func (d *Decisions) Observer() observe.Observer {
	note := func(t tally) func(context.Context, observe.Decision) {
		return func(_ context.Context, e observe.Decision) {
			if !e.Shadow {
				d.note(counted{e.Key, e.Limit}, t)
			}
		}
	}
	return observe.Observer{Allowed: note(tally{allowed: 1}), Denied: note(tally{denied: 1})}
}

func (d *Decisions) note(a counted, t tally) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turn()
	d.now.all.add(t)
	of := d.now.accounts[a]
	if n := len(d.now.accounts); of == nil && (n < maxAccounts || n < 2*maxAccounts && t.denied > 0) {
		of = new(tally)
		d.now.accounts[a] = of
	}
	if of != nil {
		of.add(t)
	}
}

// turn begins a new period if that of now is over. It is called with d.mu locked.
func (d *Decisions) turn() {
	now := time.Now()
	since := now.Sub(d.began)
	if since < periodTime {
		return
	}
	d.last = d.now
	if since >= 2*periodTime {
		d.last = period{}
		d.began = now
	} else {
		d.began = d.began.Add(periodTime)
	}
	d.now = period{accounts: make(map[counted]*tally)}
}

// rates are how many a second were allowed and denied.
type rates struct{ allowed, denied float64 }

func (t tally) over(d time.Duration) rates {
	return rates{float64(t.allowed) / d.Seconds(), float64(t.denied) / d.Seconds()}
}

// recent are the rates of the last 10 to 20 seconds, of all and of each account. A nil d has none.
func (d *Decisions) recent() (all rates, of map[counted]rates) {
	of = make(map[counted]rates)
	if d == nil {
		return all, of
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turn()
	span := periodTime + time.Since(d.began)
	sum := d.last.all
	sum.add(d.now.all)
	for a, t := range d.now.accounts {
		both := *t
		if before := d.last.accounts[a]; before != nil {
			both.add(*before)
		}
		of[a] = both.over(span)
	}
	for a, t := range d.last.accounts {
		if d.now.accounts[a] == nil {
			of[a] = t.over(span)
		}
	}
	return sum.over(span), of
}
