package main

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/rules"
)

// cost is what requests to one handler took, medians of the rounds.
type cost struct {
	Handler    string  `json:"handler"`
	CPU        float64 `json:"cpu_us"` // of the server, for a request
	Mean       float64 `json:"mean_us"`
	P99        float64 `json:"p99_us"`
	TimesCPU   float64 `json:"cpu_times_bare"` // medians of the ratios of each round
	TimesMean  float64 `json:"mean_times_bare"`
	path       string
	cpus       []float64
	means      []float64
	p99s       []float64
	cpuRatios  []float64
	meanRatios []float64
}

// measure sends requests to a bare handler, and to it behind limits, in turn.
func (r *report) measure(ctx context.Context, client *coord.Client, rounds int) (err error) {
	if rounds < 1 {
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("/bare", bare)
	r.Costs = []*cost{{Handler: "bare", path: "bare"}, {Handler: "one limit", path: "one"}}
	limits := []rules.Limit{{Name: "burst", Limit: coord.PerMinute(1e9)}, {Name: "daily", Limit: coord.PerHour(1e10)}}
	one, err := behind(client, limits[0])
	if err != nil {
		return err
	}
	mux.Handle("/one", one)
	if client.Info().Claims.Has(driver.AtomicMulti) {
		two, err := behind(client, limits...)
		if err != nil {
			return err
		}
		mux.Handle("/two", two)
		r.Costs = append(r.Costs, &cost{Handler: "two limits", path: "two"})
	}
	s, err := serve(mux)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	for round := range rounds + 1 { // the first warms up
		for _, c := range r.Costs {
			if err := c.round(ctx, s, r.Costs[0], round > 0); err != nil {
				return err
			}
		}
	}
	for _, c := range r.Costs {
		c.CPU, c.Mean, c.P99 = median(c.cpus), median(c.means), median(c.p99s)
		c.TimesCPU, c.TimesMean = median(c.cpuRatios), median(c.meanRatios)
	}
	return nil
}

// round sends the requests of one round.
func (c *cost) round(ctx context.Context, s *server, base *cost, counts bool) error {
	before := processorTime()
	a, err := hey(ctx, s.url+"/"+c.path, *requests, *connections)
	if err != nil {
		return err
	}
	cpu := 1e6 * (processorTime() - before).Seconds() / float64(len(a.took))
	if a.status[http.StatusOK] != len(a.took) {
		return errors.New("a request was not admitted")
	}
	if !counts {
		return nil
	}
	c.cpus, c.means, c.p99s = append(c.cpus, cpu), append(c.means, a.mean()), append(c.p99s, a.p99())
	last := len(c.cpus) - 1
	c.cpuRatios, c.meanRatios = append(c.cpuRatios, cpu/base.cpus[last]), append(c.meanRatios, c.means[last]/base.means[last])
	return nil
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
