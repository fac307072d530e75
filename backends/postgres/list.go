package postgres

import (
	"bytes"
	"context"
	"errors"
	"iter"

	"github.com/coordgo/coord/driver"
)

// page is a part of a listing.
type page struct {
	held []string
	next []byte // the first key of the next page; nil: there is none
}

// List implements driver.Operator.
func (b *backend) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return b.pages(ctx, b.sql.list, prefix)
}

// List implements driver.SharedLocker.
func (s sharers) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return s.b.pages(ctx, s.b.sql.listShares, prefix)
}

// pages reads the primary key of a table in order, 1,000 rows a statement.
func (b *backend) pages(ctx context.Context, statement, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for from := []byte(prefix); from != nil; {
			p, err := b.page(ctx, statement, from, []byte(prefix))
			if err == nil && ctx.Err() != nil {
				err = ctx.Err()
			}
			if errors.Is(err, driver.ErrNotHeld) {
				return // no table
			}
			if err != nil {
				yield("", err)
				return
			}
			for _, key := range p.held {
				if !yield(key, nil) {
					return
				}
			}
			from = p.next
		}
	}
}

func (b *backend) page(ctx context.Context, statement string, from, prefix []byte) (page, error) {
	return run(ctx, b, func(ctx context.Context, c conn) (p page, err error) {
		var key []byte
		var held bool
		err = c.rows(ctx, statement, []any{from}, []any{hexed{&key}, &held}, func() error {
			ours := bytes.HasPrefix(key, prefix)
			if ours && held {
				p.held = append(p.held, string(key))
			}
			if p.next = nil; ours {
				p.next = append(bytes.Clone(key), 0)
			}
			return nil
		})
		return p, notSent(err)
	})
}
