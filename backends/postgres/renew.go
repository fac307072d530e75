package postgres

import (
	"context"
	"slices"

	"github.com/coordgo/coord/driver"
)

// maxBatch is how many leases one statement renews at most.
const maxBatch = 1000

// Renew implements driver.Locker.
func (b *backend) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	renewed := b.RenewAll(ctx, []driver.Hold{{Key: key, Request: r}})[0]
	return renewed.Grant, renewed.Err
}

// RenewAll implements driver.BatchRenewer.
func (b *backend) RenewAll(ctx context.Context, holds []driver.Hold) []driver.Renewal {
	answers := make([]driver.Renewal, 0, len(holds))
	for batch := range slices.Chunk(holds, maxBatch) {
		answers = append(answers, b.renewBatch(ctx, batch)...)
	}
	return answers
}

// renewal is what names a hold.
type renewal struct{ key, id string }

func (b *backend) renewBatch(ctx context.Context, holds []driver.Hold) []driver.Renewal {
	answers := make([]driver.Renewal, len(holds))
	var keys [][]byte
	var ids []string
	var ttls []int64
	for i, h := range holds {
		if answers[i].Err = checkRequest(h.Request); answers[i].Err == nil {
			keys, ids, ttls = append(keys, []byte(h.Key)), append(ids, h.ID), append(ttls, ceil(h.TTL))
		}
	}
	renewed := map[renewal]driver.Grant{}
	var err error
	if len(keys) > 0 {
		renewed, err = run(ctx, b, func(ctx context.Context, c conn) (map[renewal]driver.Grant, error) {
			renewed := make(map[renewal]driver.Grant, len(keys))
			var key []byte
			var id string
			var token, left int64
			err := c.rows(ctx, b.sql.renew, []any{keys, ids, ttls}, []any{&key, &id, &token, &left}, func() error {
				if left > 0 { // it had not ended while the statement waited for the row
					renewed[renewal{string(key), id}] = driver.Grant{Token: token, TTL: micro(left)}
				}
				return nil
			})
			return renewed, err
		})
	}
	for i, h := range holds {
		g, ok := renewed[renewal{h.Key, h.ID}]
		switch {
		case answers[i].Err != nil:
		case err != nil:
			answers[i].Err = err
		case !ok:
			answers[i].Err = driver.ErrNotHeld
		default:
			g.TTL = max(g.TTL, h.TTL)
			answers[i].Grant = g
		}
	}
	return answers
}
