package guide

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/coordgo/coord"
)

// The same rate, by three algorithms.
var (
	strict = coord.PerMinute(2000)                                                   // "2000/1m"
	bursty = coord.Limit{Rate: 2000, Per: time.Minute, Burst: 200}                   // "2000/1m burst=200"
	cheap  = coord.Limit{Rate: 2000, Per: time.Minute, Algorithm: coord.FixedWindow} // "2000/1m fixed-window"
	capped = coord.Limit{Rate: 1800, Per: time.Minute, Burst: 200}                   // "1800/1m burst=200"
)

// serve answers 429 to a user who asks too much.
func serve(client *coord.Client, user string, w http.ResponseWriter, r *http.Request) {
	res, err := client.Allow(r.Context(), coord.Key("user", user), coord.PerSecond(5))
	switch {
	case err != nil: // the store is away, and the policy is FailClosed
		http.Error(w, "try again later", http.StatusServiceUnavailable)
	case !res.Allowed: // a denial is no error
		seconds := int((res.RetryAfter + time.Second - 1) / time.Second)
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
		http.Error(w, "too many requests", http.StatusTooManyRequests)
	default:
		fmt.Fprintln(w, "hello")
	}
}

// sendMails sends as many as may be sent now, and says how many.
func sendMails(ctx context.Context, client *coord.Client, mails []string) (int, error) {
	res, err := client.AllowAtMost(ctx, "mails", coord.PerHour(100), len(mails))
	if err != nil {
		return 0, err
	}
	return res.Granted, send(ctx, mails[:res.Granted])
}

// callAll keeps to the supplier's limit, and gives up in good time.
func callAll(ctx context.Context, client *coord.Client, calls []string) error {
	for _, call := range calls {
		if err := client.Wait(ctx, "supplier", strict); errors.Is(err, coord.ErrLimited) {
			return fmt.Errorf("before %s: %w", call, err) // the permit cannot come before ctx's deadline
		} else if err != nil {
			return err
		}
		if err := callSupplier(ctx); err != nil {
			return err
		}
	}
	return nil
}

// plan takes a place in line, and leaves it when it is too far back.
func plan(ctx context.Context, client *coord.Client) (time.Duration, error) {
	r, err := client.Reserve(ctx, "renders", bursty, 1)
	if err != nil {
		return 0, err
	}
	if r.Delay() > time.Second {
		return 0, errors.Join(coord.ErrLimited, r.Cancel(ctx)) // others may have it
	}
	return r.Delay(), nil // the caller waits for so long, and then acts
}

// admit takes a permit of three limits, or none of any.
func admit(ctx context.Context, client *coord.Client, user, tenant string) (bool, error) {
	results, err := client.AllowAll(ctx,
		coord.Demand{Key: coord.Key("user", user), Limit: coord.PerSecond(5), N: 1},
		coord.Demand{Key: coord.Key("tenant", tenant), Limit: coord.PerSecond(500), N: 1},
		coord.Demand{Key: "everyone", Limit: coord.PerSecond(10_000), N: 1},
	)
	return err == nil && results[0].Allowed, err // Allowed is the same in each
}

// openHot spends permits of one limit that were taken in advance, and asks of all others one by one.
func openHot(ctx context.Context, url string) (*coord.Client, error) {
	hot := coord.PerSecond(100_000)
	return coord.Open(ctx, url, coord.WithPermitLease(coord.PermitLease{Max: 500}, hot))
}

// openLenient admits what the store cannot count.
func openLenient(ctx context.Context, url string) (*coord.Client, error) {
	return coord.Open(ctx, url, coord.WithFailurePolicy(coord.FailOpen))
}

// lenient knows when nobody has counted.
func lenient(ctx context.Context, client *coord.Client) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond) // how long a request may wait for the store
	defer cancel()
	res, err := client.Allow(ctx, "search", coord.PerSecond(100))
	if res.Degraded != nil {
		uncounted.Add(1)
	}
	return res.Allowed, err
}

// look shows what is left without taking any of it.
func look(ctx context.Context, client *coord.Client) (string, error) {
	res, err := client.Peek(ctx, "supplier", strict)
	return fmt.Sprintf("%d left; all are back in %v", res.Remaining, res.ResetAfter.Round(time.Second)), err
}
