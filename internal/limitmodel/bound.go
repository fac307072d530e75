package limitmodel

import (
	"fmt"
	"slices"

	"github.com/coordgo/coord/driver"
)

// use is permits that are spent at some time between from and to, in microseconds of
// time that has passed.
type use struct {
	from, to int64
	window   int64 // of a fixed window: its number, or -1 if that is not certain
	limit    driver.Limit
	n        int64
	late     bool // spent later than granted
	charge   bool // debited whatever was left; given back if n is below 0
	// charged is what the bucket's limit, and all of its rate, had been charged when this was granted: what
	// was charged since then does not speak against it.
	charged [2]int64
}

// drained is a token bucket that the uses fill, and that drains by itself.
//
// The uses i to j, of which the first was made at from(i) at the earliest and the last at
// to(j) at the latest, may sum up to Burst + Rate·(to(j)-from(i))/Per. The worst
// i is kept as a running maximum.
type drained struct {
	rate, unit int64 // credits per microsecond, and of a permit
	sum        int64
	worst      int64
	latest     int64
	charged    int64 // of sum
	began      bool
}

// add counts a use, and gives by how many credits it and some of those before exceed a burst. Before is what had been
// charged when it was granted.
func (d *drained) add(u *use, burst, before int64) (over int64) {
	if start := d.rate*u.from - d.sum; u.n >= 0 && (!d.began || start > d.worst) {
		d.worst, d.began = start, true
	}
	d.sum += u.n * d.unit
	if u.charge {
		d.charged += max(u.n, 0) * d.unit
		return 0
	}
	d.latest = max(d.latest, u.to)
	return d.sum - (d.charged - before) + d.worst - d.rate*d.latest - burst*d.unit
}

// account is what the limits of one account have granted: clause R3.
type account struct {
	key     string
	of      driver.Limit // one of its limits
	widest  int          // Rate of a window, Burst of a bucket
	all     drained
	each    map[int]*drained // by Burst
	uses    []*use           // of a window: those that may still count
	pending []*use           // not spent yet, the soonest first
	ratchet int64            // the greatest time of a grant on the store's clock
	touched int64            // the greatest time at which something was given back
}

// shares is clause R3, by the numbers.
func shares(a, b driver.Limit) bool {
	if a.Algorithm != b.Algorithm {
		return false
	}
	if a.Algorithm != driver.TokenBucket {
		return a.Per == b.Per
	}
	ar, au := lowest(a)
	br, bu := lowest(b)
	return ar == br && au == bu
}

// lowest is the rate as a fraction in lowest terms, per microsecond.
func lowest(l driver.Limit) (rate, unit int64) {
	a, b := int64(l.Rate), l.Per.Microseconds()
	for x := min(a, b); x > 1; x-- {
		if a%x == 0 && b%x == 0 {
			return a / x, b / x
		}
	}
	return a, b
}

func newAccount(key string, l driver.Limit) *account {
	a := &account{key: key, of: l, each: make(map[int]*drained)}
	a.all.rate, a.all.unit = lowest(l)
	return a
}

// grant takes in permits that are spent at u.from to u.to, now or later.
func (a *account) grant(u *use, now int64) error {
	a.widest = max(a.widest, u.limit.Max())
	u.charged = [2]int64{a.own(u.limit).charged, a.all.charged}
	at := len(a.pending)
	for at > 0 && a.pending[at-1].from > u.from {
		at--
	}
	a.pending = append(a.pending[:at], append([]*use{u}, a.pending[at:]...)...)
	return a.pass(now)
}

// pass spends what is due.
func (a *account) pass(now int64) error {
	for len(a.pending) > 0 && a.pending[0].from <= now {
		u := a.pending[0]
		a.pending = a.pending[1:]
		if err := a.spend(u); err != nil {
			return err
		}
	}
	return nil
}

// own is what one limit of a bucket has granted.
func (a *account) own(l driver.Limit) *drained {
	own := a.each[l.Burst]
	if own == nil {
		own = &drained{rate: a.all.rate, unit: a.all.unit}
		a.each[l.Burst] = own
	}
	return own
}

// charge takes in permits that are charged, or given back, at u.from to u.to. Who may spend permits late has to spend
// them before that: it changes what is there.
func (a *account) charge(u *use, now int64) error {
	a.widest = max(a.widest, u.limit.Max())
	if err := a.pass(now); err != nil {
		return err
	}
	for _, p := range slices.Clone(a.pending) {
		if !p.late {
			continue
		}
		a.pending = slices.DeleteFunc(a.pending, func(o *use) bool { return o == p })
		p.from, p.to = u.from, u.to
		if err := a.spend(p); err != nil {
			return err
		}
	}
	if a.of.Algorithm != driver.TokenBucket {
		return a.spendWindow(u)
	}
	a.all.add(u, 0, 0)
	if u.n > 0 {
		a.own(u.limit).add(u, 0, 0)
		return nil
	}
	for _, own := range a.each { // what is given back is there for all
		own.add(u, 0, 0)
	}
	return nil
}

func (a *account) spend(u *use) error {
	if u.n == 0 {
		return nil
	}
	if a.of.Algorithm != driver.TokenBucket {
		return a.spendWindow(u)
	}
	// The moment at which a reservation is due is rounded to a microsecond.
	if over := a.own(u.limit).add(u, int64(u.limit.Burst), u.charged[0]); over > a.all.rate {
		return fmt.Errorf("%q: %v granted %d credits of %d too many: R1", a.key, u.limit, over, a.all.unit)
	}
	if over := a.all.add(u, int64(a.widest), u.charged[1]); over > a.all.rate {
		return fmt.Errorf("%q: the limits of %v together granted %d credits of %d more than a burst of %d: R1", a.key, u.limit, over, a.all.unit, a.widest)
	}
	return nil
}

// has reports whether old was certainly spent in the period that ends with u, mayHave whether it may have been.
func (u *use) has(old *use, per int64) bool {
	if u.limit.Algorithm == driver.FixedWindow {
		return old.window == u.window && u.window >= 0
	}
	return u.to-old.from < per
}

func (u *use) mayHave(old *use, per int64) bool {
	if u.limit.Algorithm == driver.FixedWindow {
		return old.window == u.window || u.window < 0 || old.window < 0
	}
	return u.from-old.to < per
}

func (a *account) spendWindow(u *use) error {
	per := u.limit.Per.Microseconds()
	kept := a.uses[:0]
	sum := u.n
	for _, old := range a.uses {
		if u.to-old.from >= 2*per {
			continue
		}
		kept = append(kept, old)
		if old.n < 0 && u.mayHave(old, per) || old.n >= 0 && u.has(old, per) {
			sum += old.n
		}
	}
	a.uses = append(kept, u)
	if u.charge {
		return nil
	}
	most := u.limit.Rate
	if u.late { // others may have been granted something since
		most = a.widest
	}
	if sum > int64(most) {
		return fmt.Errorf("%q: %v: %d permits in one period, want at most %d: R1", a.key, u.limit, sum, most)
	}
	return nil
}
