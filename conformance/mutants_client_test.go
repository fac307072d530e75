package conformance_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
)

// Bugs of a client: each is between coord.Client and its driver, as if package coord had it. The cases that break calls
// break them below it.
var clientMutants = []mutant{
	{
		name: "call sent again", bug: "a request that got no answer is sent again, as a new one (an HTTP client that retries)", sound: "clients",
		new: bugged(func(l *layer) {
			l.take = func(ctx context.Context, key string, limit driver.Limit, asks []driver.Ask) (driver.Taken, error) {
				t, err := l.whole.Take(ctx, key, limit, asks)
				for n := 0; n < 3 && err != nil && !driver.Definite(err); n++ {
					t, err = l.whole.Take(ctx, key, limit, renamed(asks))
				}
				return t, err
			}
		}), killers: []string{"LIMIT-62", "LIMIT-64"},
	}, {
		name: "debit without an answer given back", bug: "what got no answer is taken for not spent, and given back", sound: "clients",
		new: bugged(givesBack), killers: []string{"LIMIT-36"},
	}, {
		name: "outage that admits", bug: "an error of the store is taken for a grant, whatever the policy says", sound: "clients",
		new: bugged(func(l *layer) {
			l.take = func(ctx context.Context, key string, limit driver.Limit, asks []driver.Ask) (driver.Taken, error) {
				t, err := l.whole.Take(ctx, key, limit, asks)
				if err != nil && !driver.Definite(err) {
					t, err = driver.Taken{Asks: make([]driver.Granted, len(asks))}, nil
					for i, a := range asks {
						t.Asks[i].N = a.N
					}
				}
				return t, err
			}
		}), killers: []string{"LIMIT-60", "LIMIT-61", "LIMIT-63", "LIMIT-64"},
	}, {
		name: "denial kept", bug: "who was denied is denied for a minute, whoever resets the limit", sound: "clients",
		new: bugged(func(l *layer) {
			var mu sync.Mutex
			denied := make(map[string]time.Time)
			l.take = func(ctx context.Context, key string, limit driver.Limit, asks []driver.Ask) (driver.Taken, error) {
				mu.Lock()
				until := denied[key]
				mu.Unlock()
				if time.Now().Before(until) {
					t := driver.Taken{Asks: make([]driver.Granted, len(asks))}
					for i := range asks {
						t.Asks[i].RetryAfter = time.Until(until)
					}
					return t, nil
				}
				t, err := l.whole.Take(ctx, key, limit, asks)
				if err == nil && t.Asks[0].N < asks[0].N {
					mu.Lock()
					denied[key] = time.Now().Add(time.Minute)
					mu.Unlock()
				}
				return t, err
			}
		}), killers: []string{"LIMIT-46"},
	}, {
		name: "acquisition of unknown outcome told as a refusal", bug: "after an error the key is said to be locked, and nobody removes what the store may have", sound: "clients",
		new: bugged(func(l *layer) {
			l.acquired = func(g driver.Grant, err error) (driver.Grant, error) {
				if err != nil && !driver.Definite(err) {
					err = driver.ErrLocked
				}
				return g, err
			}
		}), killers: []string{"LOCK-42", "LOCK-43", "LOCK-44", "LOCK-45", "LOCK-54", "LOCK-55", "LOCK-56"},
	}, {
		name: "release given up", bug: "an Unlock that failed is not made again", sound: "clients",
		new: bugged(func(l *layer) {
			l.unlock = func(ctx context.Context, key, id string) error {
				if err := l.whole.Unlock(ctx, key, id); errors.Is(err, driver.ErrClosed) {
					return err
				}
				return nil
			}
		}), killers: []string{"LOCK-37", "LOCK-47", "LOCK-54", "LOCK-55", "LOCK-56"},
	}, {
		name: "release forgotten", bug: "Unlock says that it was made, and asks the store for nothing", sound: "clients",
		new: bugged(func(l *layer) {
			l.unlock = func(context.Context, string, string) error { return nil }
		}), killers: []string{"LOCK-01", "LOCK-23", "LOCK-46", "LOCK-53", "LOCK-60", "LOCK-61", "LOCK-63", "LOCK-66", "LOCK-69", "LOCK-82", "LOCK-87", "LOCK-90", "LOCK-91"},
	}, {
		name: "release under the context of its acquisition", bug: "what ends the wait for a key ends its release, too", sound: "clients",
		new: bugged(func(l *layer) {
			var ctxs sync.Map
			l.acquiring = func(ctx context.Context, id string) { ctxs.Store(id, ctx) }
			l.unlock = func(ctx context.Context, key, id string) error {
				if of, ok := ctxs.Load(id); ok && of.(context.Context).Err() != nil {
					return nil
				}
				return l.whole.Unlock(ctx, key, id)
			}
		}), killers: []string{"LOCK-34"},
	}, {
		name: "second release told as not held", bug: "an Unlock that is made again after a lost reply finds nothing, and an error is told", sound: "clients",
		new: bugged(func(l *layer) {
			l.unlock = func(ctx context.Context, key, id string) error {
				err := l.whole.Unlock(ctx, key, id)
				if errors.Is(err, driver.ErrNotHeld) {
					err = errors.New("nothing to unlock")
				}
				return err
			}
		}), killers: []string{"LOCK-35", "LOCK-36"},
	}, {
		name: "renewal that assumes the best", bug: "a renewal without an answer counts as made", sound: "clients",
		new: bugged(func(l *layer) {
			l.renew = func(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
				g, err := l.whole.Renew(ctx, key, r)
				if err != nil && !errors.Is(err, driver.ErrNotHeld) {
					g, err = l.last(r.ID), nil
					g.Since = time.Now()
				}
				return g, err
			}
		}), killers: []string{"LOCK-11", "LOCK-12", "LOCK-15"},
	}, {
		name: "renewal that believes itself", bug: "the answer to a renewal is not looked at", sound: "clients",
		new: bugged(func(l *layer) {
			l.renew = func(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
				g, err := l.whole.Renew(ctx, key, r)
				if errors.Is(err, driver.ErrNotHeld) {
					g, err = l.last(r.ID), nil
					g.Since = time.Now()
				}
				return g, err
			}
		}), killers: []string{"LOCK-16", "LOCK-97"},
	}, {
		name: "failed renewal is a loss", bug: "the first error of a renewal ends the hold", sound: "clients",
		new: bugged(func(l *layer) {
			l.renew = func(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
				g, err := l.whole.Renew(ctx, key, r)
				if err != nil {
					err = driver.ErrNotHeld
				}
				return g, err
			}
		}), killers: []string{"LOCK-21"},
	}, {
		name: "failed renewal is the last", bug: "after an error a hold is not renewed any more", sound: "clients",
		new: bugged(func(l *layer) {
			var failed sync.Map
			l.renew = func(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
				if err, ok := failed.Load(r.ID); ok {
					return driver.Grant{}, err.(error)
				}
				g, err := l.whole.Renew(ctx, key, r)
				if err != nil {
					failed.Store(r.ID, err)
				}
				return g, err
			}
		}), killers: []string{"LOCK-21"},
	}, {
		name: "renewal after the release", bug: "the timer of the next renewal is not stopped by Unlock", sound: "clients",
		new: bugged(func(l *layer) {
			l.unlock = func(ctx context.Context, key, id string) error {
				err := l.whole.Unlock(ctx, key, id)
				go func() {
					time.Sleep(100 * time.Millisecond)
					_, _ = l.whole.Renew(context.WithoutCancel(ctx), key, driver.Request{ID: id, TTL: l.last(id).TTL})
				}()
				return err
			}
		}), killers: []string{"LOCK-26"},
	}, {
		name: "outage that ends the wait", bug: "who waits is told of the first error, and does not go on", sound: "clients",
		new: bugged(func(l *layer) {
			l.acquired = func(g driver.Grant, err error) (driver.Grant, error) {
				if err != nil && !driver.Definite(err) {
					err = errors.Join(driver.ErrInvalid, err)
				}
				return g, err
			}
		}), killers: []string{"LOCK-47", "LOCK-279"},
	}, {
		name: "outage that never ends", bug: "a client that met an error is not tried again", sound: "clients",
		new: bugged(func(l *layer) {
			var mu sync.Mutex
			var broken error
			breaks := func(err error) error {
				mu.Lock()
				defer mu.Unlock()
				if broken != nil {
					return broken
				}
				if err != nil && !driver.Definite(err) {
					broken = driver.NotSent(err)
				}
				return err
			}
			l.acquired = func(g driver.Grant, err error) (driver.Grant, error) {
				if err = breaks(err); err != nil {
					g = driver.Grant{}
				}
				return g, err
			}
			l.take = func(ctx context.Context, key string, limit driver.Limit, asks []driver.Ask) (driver.Taken, error) {
				t, err := l.whole.Take(ctx, key, limit, asks)
				if err = breaks(err); err != nil {
					t = driver.Taken{}
				}
				return t, err
			}
		}), killers: []string{"LIMIT-61", "LOCK-49", "LOCK-276", "LOCK-279"},
	}, {
		name: "calls without a context", bug: "a call does not end with its context", sound: "clients",
		new: bugged(func(l *layer) { l.ctx = unending }), killers: []string{"LOCK-44", "LOCK-45"},
	}, {
		name: "token of the client", bug: "tokens are the count of the client's own grants", sound: "clients",
		new: bugged(countsTokens), killers: []string{"LOCK-01"},
	}, {
		name: "lease from its answer", bug: "a lease counts from when its grant came, and not from when it was asked for", sound: "clients",
		new: bugged(func(l *layer) {
			l.acquired = func(g driver.Grant, err error) (driver.Grant, error) {
				g.Since = time.Now().Add(g.TTL / 4)
				return g, err
			}
		}), killers: []string{"LOCK-11", "LOCK-12"},
	}, {
		name: "Break that marks alone", bug: "Break tells the holder, and leaves the key to its lease", sound: "clients",
		new: bugged(func(l *layer) {
			l.breaks = func(context.Context, string, string) error { return nil }
		}), killers: []string{"LOCK-54", "LOCK-55", "LOCK-56"},
	},
}

// countsTokens gives tokens of its own.
func countsTokens(l *layer) {
	var mu sync.Mutex
	n := int64(0)
	l.acquired = func(g driver.Grant, err error) (driver.Grant, error) {
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			n++
			g.Token = n
		}
		return g, err
	}
}

// givesBack gives back what got no answer.
func givesBack(l *layer) {
	l.take = func(ctx context.Context, key string, limit driver.Limit, asks []driver.Ask) (driver.Taken, error) {
		t, err := l.whole.Take(ctx, key, limit, asks)
		for _, a := range asks {
			if err != nil && !driver.Definite(err) && a.N > 0 {
				_, _ = l.whole.Charge(context.WithoutCancel(ctx), key, limit, -a.N)
			}
		}
		return t, err
	}
}

// renamed are asks with other ids.
func renamed(asks []driver.Ask) []driver.Ask {
	again := make([]driver.Ask, len(asks))
	for i, a := range asks {
		if a.ID != "" {
			a.ID += "-again"
		}
		again[i] = a
	}
	return again
}

// unending is ctx without its end.
func unending(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	time.AfterFunc(time.Hour, cancel)
	return ctx
}

// bugged makes a harness of a server whose clients have a bug.
func bugged(spoil func(*layer)) func() harness { return served(nil, spoil) }

// layered puts a layer on b.
func layered(b driver.Backend, spoil func(*layer)) driver.Backend {
	l := &layer{whole: b, ctx: func(ctx context.Context) context.Context { return ctx }}
	spoil(l)
	return l
}

// layer passes calls on. Its functions, where they are not nil, are asked instead, or told.
type layer struct {
	whole
	ctx       func(context.Context) context.Context
	request   func(driver.Request) driver.Request
	acquiring func(ctx context.Context, id string)
	acquired  func(driver.Grant, error) (driver.Grant, error)
	renew     func(ctx context.Context, key string, r driver.Request) (driver.Grant, error)
	unlock    func(ctx context.Context, key, id string) error
	breaks    func(ctx context.Context, key, id string) error
	take      func(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error)
	closing   func()

	grants sync.Map // the last of each id
}

func (l *layer) TakeOne(ctx context.Context, key string, limit driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	return driver.One(l.Take(ctx, key, limit, []driver.Ask{a}))
}

// RenewAll leaves it to Renew.
func (l *layer) RenewAll(context.Context, []driver.Hold) []driver.Renewal { return nil }

// last is the last grant of id.
func (l *layer) last(id string) driver.Grant {
	g, _ := l.grants.Load(id)
	grant, _ := g.(driver.Grant)
	return grant
}

func (l *layer) acquire(ctx context.Context, key string, r driver.Request, do func(context.Context, string, driver.Request) (driver.Grant, error)) (driver.Grant, error) {
	asked := r
	if l.acquiring != nil {
		l.acquiring(ctx, r.ID)
	}
	if l.request != nil {
		r = l.request(r)
	}
	g, err := do(l.ctx(ctx), key, r)
	if err == nil && l.request != nil {
		g.TTL = asked.TTL
	}
	if l.acquired != nil {
		g, err = l.acquired(g, err)
	}
	if err == nil {
		l.grants.Store(r.ID, g)
	}
	return g, err
}

func (l *layer) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return l.acquire(ctx, key, r, l.whole.TryLock)
}

func (l *layer) Lock(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	return l.acquire(ctx, key, r, func(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
		return l.whole.Lock(ctx, key, r, waits)
	})
}

func (l *layer) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if l.renew != nil {
		return l.renew(ctx, key, r)
	}
	return l.whole.Renew(l.ctx(ctx), key, r)
}

func (l *layer) Unlock(ctx context.Context, key, id string) error {
	if l.unlock != nil {
		return l.unlock(ctx, key, id)
	}
	return l.whole.Unlock(l.ctx(ctx), key, id)
}

func (l *layer) Break(ctx context.Context, key, id string) error {
	if l.breaks != nil {
		return l.breaks(ctx, key, id)
	}
	return l.whole.Break(ctx, key, id)
}

func (l *layer) BreakNow(ctx context.Context, key, id string) error {
	return l.whole.BreakNow(l.ctx(ctx), key, id)
}

func (l *layer) Take(ctx context.Context, key string, limit driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	if l.take != nil {
		return l.take(ctx, key, limit, asks)
	}
	return l.whole.Take(l.ctx(ctx), key, limit, asks)
}

func (l *layer) Close() error {
	if l.closing != nil {
		l.closing()
	}
	return l.whole.Close()
}
