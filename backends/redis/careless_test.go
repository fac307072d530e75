package redis

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
)

// careless is this driver with the most common bug of Redis locks: Unlock deletes
// the key, whoever holds it.
type careless struct {
	*backend
	client *redis.Client
}

func (c careless) Unlock(ctx context.Context, key, _ string) error {
	n, err := c.client.Del(ctx, lockKey(key)).Result()
	if err == nil && n == 0 {
		err = driver.ErrNotHeld
	}
	return err
}

// An author who forgets to compare is told which clause is broken, what happened, what to do
// about it, and how to run the case alone. The driver as it is passes the same cases.
func TestSuiteTellsOfACarelessUnlock(t *testing.T) {
	t.Parallel()
	seen := shared(t)
	run := func(wrap func(*backend, *redis.Client) driver.Backend) (*conformance.Suite, *conformance.Report) {
		s := &conformance.Suite{
			Harness: conformance.Harness{
				Open: func(tb conformance.TB) driver.Backend {
					client := redis.NewClient(optionsOf(seen))
					return wrap(backendOver(tb, client).(*backend), client)
				},
				Claims: Claims,
			},
			Only:  func(c conformance.Case) bool { return c.ID == "LOCK-02" || c.ID == "LOCK-32" },
			Alone: "go test -run 'TestConformance/^{case}$' ./backends/redis",
		}
		r, err := s.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s, r
	}
	_, sound := run(func(b *backend, _ *redis.Client) driver.Backend { return b })
	if sound.Count(conformance.Pass) != 2 {
		t.Errorf("the driver as it is: saw %d of 2 cases pass", sound.Count(conformance.Pass))
	}
	s, r := run(func(b *backend, c *redis.Client) driver.Backend { return careless{b, c} })
	told := make(map[string]string)
	for _, res := range r.Results {
		told[res.ID] = s.Explain(res)
		if res.Outcome != conformance.Fail {
			t.Errorf("%s with an Unlock that does not compare: %s, want a failure", res.ID, res.Outcome)
		}
	}
	for id, want := range map[string][]string{
		"LOCK-02": {
			"LOCK-02 breaks clause L1 of docs/contract.md",
			"Unlock by another id while the key is held: saw error <nil>",
			"alone: go test -run 'TestConformance/^LOCK-02$' ./backends/redis",
		},
		"LOCK-32": {
			"LOCK-32 breaks clause L5 of docs/contract.md",
			"Unlock by the holder before: saw error <nil>",
			"usual remedy: compare the id in the same atomic step",
			"why it matters: a release without comparing the owner frees the next holder's lock",
			"alone: go test -run 'TestConformance/^LOCK-32$' ./backends/redis",
		},
	} {
		for _, part := range want {
			if !strings.Contains(told[id], part) {
				t.Errorf("the failure of %s does not say %q:\n%s", id, part, told[id])
			}
		}
	}
}
