package guide

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/coordgo/coord"
)

// budget is what a tenant may use: 100,000 tokens a minute, of which it can save up 20,000.
var budget = coord.Limit{Rate: 100_000, Per: time.Minute, Burst: 20_000}

// complete streams an answer of a language model. The tenant pays for the tokens that it used, not for an estimate.
func complete(ctx context.Context, client *coord.Client, tenant, prompt string, show func(string) error) (err error) {
	key := coord.Key("tenant", tenant)
	estimated := len(prompt)/4 + 300
	res, err := client.AllowN(ctx, key, budget, estimated)
	switch {
	case err != nil:
		return err
	case !res.Allowed:
		return coord.ErrLimited
	}
	used := 0
	defer func() {
		// The user may have left. The tokens are used nevertheless.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, client.Settle(ctx, key, budget, estimated, used))
	}()
	for text, tokens := range model(ctx, prompt) {
		used += tokens
		if err := show(text); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// sendRows sends rows until there are no more, or the tenant is in debt.
func sendRows(ctx context.Context, client *coord.Client, tenant string, rows iter.Seq[[]string]) error {
	key, limit := coord.Key("rows", tenant), coord.Limit{Rate: 1000, Per: time.Second, Burst: 1000}
	for page := range rows {
		if err := send(ctx, page); err != nil {
			return err
		}
		res, err := client.Charge(ctx, key, limit, len(page))
		if err != nil {
			return err
		}
		if !res.Allowed {
			return coord.ErrLimited // res.RetryAfter says when to go on
		}
	}
	return nil
}
