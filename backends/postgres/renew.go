package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
)

const (
	// maxBatch is how many leases one statement renews at most.
	maxBatch = 1000
	// waitAtMost is for how long the answers of other renewals wait for those that wait for locked rows.
	waitAtMost = 300 * time.Millisecond
)

// errLocked is a renewal that was left out because its row was locked.
var errLocked = fmt.Errorf("%w: postgres: another transaction has locked the row", driver.ErrNotSent)

// Renew implements driver.Locker.
func (b *backend) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	renewed := b.RenewAll(ctx, []driver.Hold{{Key: key, Request: r}})[0]
	return renewed.Grant, renewed.Err
}

// RenewAll implements driver.Locker.
func (b *backend) RenewAll(ctx context.Context, holds []driver.Hold) []driver.Renewal {
	return b.renewHolds(ctx, locks, holds)
}

// kind is what is held.
type kind int

const (
	locks  kind = iota
	shares      // of keys
)

// renewHolds renews holds of one kind. A row that somebody else has locked holds up no other: those are renewed by
// themselves afterwards, and wait for their rows, or a row that many want would hardly ever be renewed.
func (b *backend) renewHolds(ctx context.Context, of kind, holds []driver.Hold) []driver.Renewal {
	answers := b.renewAll(ctx, of, holds)
	if len(holds) > 1 { // one by itself holds up no answer
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, waitAtMost)
		defer cancel()
	}
	locked := make(chan int, len(holds))
	for i, a := range answers {
		if a.Err == errLocked {
			locked <- i
		}
	}
	close(locked)
	var wg sync.WaitGroup
	for range min(b.waits.most, len(locked)) {
		wg.Go(func() {
			for i := range locked {
				name := renewal{holds[i].Key, holds[i].ID}
				if b.waits.begin(name) {
					answers[i] = b.renewBatch(ctx, of, holds[i:i+1], true, func() { b.waits.end(name) })[0]
				}
			}
		})
	}
	wg.Wait()
	return answers
}

// rowWaits are the renewals that wait for locked rows, each with a connection, until they have returned, also if their
// callers have gone. They leave most of the connections to others, and no hold has two.
type rowWaits struct {
	most int // of them
	mu   sync.Mutex
	on   map[renewal]bool
}

// begin reports whether there is room. If so, call end.
func (w *rowWaits) begin(name renewal) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.on[name] || len(w.on) >= w.most {
		return false
	}
	if w.on == nil {
		w.on = map[renewal]bool{}
	}
	w.on[name] = true
	return true
}

func (w *rowWaits) end(name renewal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.on, name)
}

func (b *backend) renewAll(ctx context.Context, of kind, holds []driver.Hold) []driver.Renewal {
	answers := make([]driver.Renewal, 0, len(holds))
	for batch := range slices.Chunk(holds, maxBatch) {
		answers = append(answers, b.renewBatch(ctx, of, batch, false, func() {})...)
	}
	return answers
}

// renewal is what names a hold.
type renewal struct{ key, id string }

// renewBatch renews holds, and calls over when nothing of that is on its way any more. If waits is not set, those whose rows are
// locked are left out.
func (b *backend) renewBatch(ctx context.Context, of kind, holds []driver.Hold, waits bool, over func()) []driver.Renewal {
	answers := make([]driver.Renewal, len(holds))
	var due []driver.Hold
	for i, h := range holds {
		check := checkRequest
		if of == shares {
			check = checkShare
		}
		if answers[i].Err = check(h.Request); answers[i].Err == nil {
			due = append(due, h)
		}
	}
	var renewed map[renewal]driver.Renewal
	var err error
	if len(due) == 0 {
		over()
	} else {
		by := renewing
		if waits {
			by = ending
		}
		renewed, err = runWithin(ctx, b, by, b.options.timeout, over, func(ctx context.Context, c conn) (map[renewal]driver.Renewal, error) {
			return b.renewRows(ctx, c, of, due, waits)
		})
	}
	for i, h := range holds {
		r, ok := renewed[renewal{h.Key, h.ID}]
		switch {
		case answers[i].Err != nil:
		case err != nil:
			answers[i].Err = err
		case !ok:
			answers[i].Err = driver.ErrNotHeld
		default:
			answers[i] = r
			answers[i].Grant.TTL = max(r.Grant.TTL, h.TTL)
		}
	}
	return answers
}

// renewRows gives the holds that were renewed, and those whose rows are locked.
func (b *backend) renewRows(ctx context.Context, c conn, of kind, holds []driver.Hold, waits bool) (map[renewal]driver.Renewal, error) {
	var keys [][]byte
	var ids, modes []string
	var leases []time.Duration
	var weights []int64
	for _, h := range holds {
		keys, ids, leases = append(keys, []byte(h.Key)), append(ids, h.ID), append(leases, ceil(h.TTL))
		modes, weights = append(modes, h.Share.Mode.String()), append(weights, h.Share.Weight)
	}
	var key []byte
	var id string
	var token, left, bound *int64 // nil: the row is locked
	var slot *int
	sql, args, to := b.sql.renew, []any{keys, ids, leases, waits}, []any{hexed{&key}, &id, &token, &left}
	if of == shares {
		sql, args, to = b.sql.renewShares, []any{keys, ids, leases, modes, weights, waits}, append(to, &slot, &bound)
	}
	renewed := make(map[renewal]driver.Renewal, len(holds))
	err := c.rows(ctx, sql, args, to, func() error {
		r := driver.Renewal{Err: errLocked}
		if token != nil {
			r = driver.Renewal{Grant: driver.Grant{Token: *token, TTL: micro(*left)}}
		}
		if slot != nil {
			r.Grant.Slot, r.Grant.Of = *slot, *bound
		}
		renewed[renewal{string(key), id}] = r
		return nil
	})
	return renewed, err
}
