package guide

import (
	"context"
	"database/sql"
	"fmt"
	"sync"

	"github.com/coordgo/coord"
)

// settleInvoice writes under a lock, unless a later holder has written.
func settleInvoice(ctx context.Context, client *coord.Client, db *sql.DB, id string) error {
	key := coord.Key("invoice", id)
	return coord.Do(ctx, client, key, func(ctx context.Context) error {
		lock, _ := coord.Held(ctx, key)
		res, err := db.ExecContext(ctx,
			`UPDATE invoices SET state = 'settled', token = $1 WHERE id = $2 AND token <= $1`, int64(lock.Token()), id)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		if err == nil && n == 0 {
			err = fmt.Errorf("invoice %s does not exist, or a later holder has written it", id)
		}
		return err
	})
}

// catalogue holds prices in memory.
type catalogue struct {
	guard  coord.Guard
	mu     sync.Mutex
	prices map[string]int
}

// set refuses a writer that is not the latest holder.
func (c *catalogue) set(lock *coord.Lock, item string, price int) error {
	return c.guard.Do(lock.Key(), lock.Token(), func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.prices[item] = price
		return nil
	})
}
