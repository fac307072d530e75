package guide

import (
	"context"
	"errors"
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
