package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/coordgo/coord/internal/bench"
)

// quota is a limit that is asked for more than it has, by two processes of coord at once.
type quota struct {
	name         string
	domain, rule string
	atMost       bool // permits that were taken in advance may be lost
}

// most is what a quota admits. Its window is so long that it does not end meanwhile.
const most = 1000

var quotas = []quota{
	{name: "`counting: envoy`", domain: "counted", rule: "unit: year"},
	{name: "`counting: exact`, fixed window", domain: "bounded", rule: "unit: year, algorithm: fixed-window"},
	{name: "`counting: exact`, sliding window", domain: "bounded", rule: "unit: day, algorithm: sliding-window"},
	{name: "`counting: exact`, token bucket", domain: "bounded", rule: "unit: year, algorithm: token-bucket"},
	{name: "`counting: exact`, sliding window, leased", domain: "bounded", rule: "unit: month, algorithm: sliding-window, lease: true", atMost: true},
}

// key is what requests name the quota by.
func (q quota) key() string { return strings.NewReplacer(": ", "-", ", ", "-").Replace(q.rule) }

// quotaFile is the configuration of a domain's quotas.
func quotaFile(domain, head string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "domain: %s\n%sdescriptors:\n", domain, head)
	for _, q := range quotas {
		if q.domain == domain {
			fmt.Fprintf(&b, "  - {key: %s, rate_limit: {requests_per_unit: %d, %s}}\n", q.key(), most, q.rule)
		}
	}
	return b.String()
}

// admission is what a quota let in.
type admission struct {
	quota
	asked, admitted int
}

func (a admission) right() bool {
	return a.admitted == most || a.atMost && a.admitted > 0 && a.admitted < most
}

// admitted has 64 callers ask for a quota, one half of them one process and the other half the other.
func admitted(ctx context.Context, q quota, two [2]*target) (admission, error) {
	const callers, each = 64, 50
	a := admission{quota: q, asked: callers * each}
	request := envoyRequest(q.domain, []entry{{q.key(), "one"}})
	counts := make([]int, callers)
	load := bench.Load{Workers: callers, For: time.Nanosecond, Batch: each} // each worker has one batch
	_, err := bench.Run(ctx, load, func(ctx context.Context, worker int) error {
		var answer frame
		ok, err := two[worker%2].ask(ctx, worker/2, request, &answer, 1)
		if ok {
			counts[worker]++
		}
		return err
	})
	for _, n := range counts {
		a.admitted += n
	}
	return a, err
}
