package postgres

import (
	"context"
	"math/rand/v2"
	"strings"
)

const (
	// sweepEach is how many grants there are, on an average, for each sweep: the more rows are made, the more are removed, and
	// a client that does nothing sends nothing. It goes by chance, because many a process, as a job of cron, makes one grant.
	sweepEach = 100
	// sweepBlocks is how much of a table is looked through: some thousand rows. With the longest keys a block has one row, and
	// there still are more than a sweep has grants.
	sweepBlocks = 128
)

// sweepTables are the tables, and which of their rows are over. A cell stays some seconds longer: a decision that took it for
// absent may be on its way, see tooLate.
var sweepTables = []struct{ table, over string }{
	{"waiters", "until < clock_timestamp() - interval '1 hour'"},
	{"locks", "until < clock_timestamp() - interval '1 hour' AND NOT EXISTS (SELECT FROM {schema}.waiters AS w WHERE w.key = t.key)"},
	{"holders", "until < clock_timestamp() - interval '1 hour'"},
	{"shares", "until < clock_timestamp() - interval '1 hour' AND NOT EXISTS (SELECT FROM {schema}.holders AS h WHERE h.key = t.key)"},
	{"cells", "until < clock_timestamp() - interval '10 seconds'"},
}

func sweepTexts(schema string) (texts []string) {
	for _, s := range sweepTables {
		all := strings.NewReplacer("{table}", s.table, "{over}", strings.ReplaceAll(s.over, "{schema}", schema))
		texts = append(texts, all.Replace(text("sweep", schema)))
	}
	return texts
}

// sweep looks through a part of each table, now and then, in the background.
func (b *backend) sweep() {
	if rand.N(sweepEach) > 0 || !b.sweeping.CompareAndSwap(false, true) {
		return
	}
	b.calls.Go(func() {
		defer b.sweeping.Store(false)
		_ = b.sweepOnce(b.calls.Life()) // another one does what was not done
	})
}

// sweepOnce removes what is over in a part of each table, which begins anywhere: nobody has to remember where the last one ended.
func (b *backend) sweepOnce(ctx context.Context) error {
	for _, sql := range b.sql.sweeps {
		_, err := run(ctx, b, func(ctx context.Context, c conn) (int64, error) { return c.count(ctx, sql, sweepBlocks) })
		if err != nil {
			return err
		}
	}
	return nil
}
