package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/coordgo/coord/internal/bench"
)

// target is the process of a subject, and connections to it.
type target struct {
	subject
	pid   int
	conns [2]*grpc.ClientConn
}

// newTarget connects to where a subject answers, until t ends.
func newTarget(t testing.TB, s subject, addr string) (*target, error) {
	to := &target{subject: s}
	for i := range to.conns {
		c, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.5, MaxDelay: 100 * time.Millisecond}}),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(frames{})))
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = c.Close() }) // whether it worked is not measured
		to.conns[i] = c
	}
	return to, nil
}

// ask makes one request, of so many limits, on one of the connections. answer is used again.
func (t *target) ask(ctx context.Context, conn int, request frame, answer *frame, limits int) (bool, error) {
	if err := t.conns[conn%len(t.conns)].Invoke(ctx, t.method, &request, answer); err != nil {
		return false, err
	}
	return t.read(*answer, limits)
}

// ready is an error until all connections have an answer to what will be asked.
func (t *target) ready(ctx context.Context) error {
	for i := range t.conns {
		var answer frame
		if _, err := t.ask(ctx, i, t.request(t.domain, entries("ready", 1)), &answer, 1); err != nil {
			return err
		}
	}
	return nil
}

// row is what all subjects are measured at.
type row struct{ callers, keys, descriptors int }

func (r row) String() string { return fmt.Sprintf("%d/%d/%d", r.callers, r.keys, r.descriptors) }

func rows() (list []row) {
	for _, descriptors := range []int{1, 2} {
		for _, keys := range []int{1, 10_000} {
			for _, callers := range []int{1, 64, 512} {
				list = append(list, row{callers, keys, descriptors})
			}
		}
	}
	return list
}

// entries are what a request with so many descriptors counts by.
func entries(value string, descriptors int) []entry {
	return []entry{{"user", value}, {"path", value}}[:descriptors]
}

// figures are what one measurement found.
type figures struct {
	rate     float64 // decisions a second
	us       float64 // of processor time for a decision, of the service and Redis together
	redis    float64 // of it Redis
	p50, p99 float64 // µs
}

// caller is one goroutine that asks.
type caller struct {
	draw   *rand.PCG
	answer frame
	asked  int // also what ended too late to be in the sample
	_      [32]byte
}

// load is callers that ask a target, each request for a key that is drawn at random.
type load struct {
	*target
	limits   int
	requests []frame
	callers  []caller
}

func newLoad(t *target, r row) *load {
	l := &load{target: t, limits: r.descriptors, requests: make([]frame, r.keys), callers: make([]caller, r.callers)}
	for i := range l.requests {
		l.requests[i] = t.request(t.domain, entries(strconv.Itoa(i), r.descriptors))
	}
	for i := range l.callers {
		l.callers[i].draw = rand.NewPCG(1, uint64(i))
	}
	return l
}

func (l *load) once(ctx context.Context, worker int) error {
	c := &l.callers[worker]
	request := l.requests[0]
	if len(l.requests) > 1 {
		request = l.requests[c.draw.Uint64()%uint64(len(l.requests))]
	}
	admitted, err := l.ask(ctx, worker, request, &c.answer, l.limits)
	if err == nil && !admitted {
		err = fmt.Errorf("a limit of %d is over", plenty)
	}
	c.asked++
	return err
}

// asked is how many decisions there were so far.
func (l *load) asked() (n int) {
	for i := range l.callers {
		n += l.callers[i].asked
	}
	return n
}

// used is processor time.
type used struct{ service, redis time.Duration }

func (t *target) used(redis int) (u used, err error) {
	u.service, err = processorTime(t.pid)
	if err == nil && t.redis {
		u.redis, err = processorTime(redis)
	}
	return u, err
}

// measure warms up for a tenth of the time. redis is the process of Redis.
func (l *load) measure(ctx context.Context, forEach time.Duration, redis int) (f figures, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // of what hangs
	run := bench.Load{Workers: len(l.callers), For: forEach / 10}
	if _, err := bench.Run(ctx, run, l.once); err != nil {
		return f, err
	}
	asked := l.asked()
	before, err := l.used(redis)
	if err != nil {
		return f, err
	}
	run.For = forEach
	s, err := bench.Run(ctx, run, l.once)
	if err != nil {
		return f, err
	}
	after, err := l.used(redis)
	if err != nil {
		return f, err
	}
	decisions := float64(l.asked() - asked)
	service, store := bench.Micros(after.service-before.service)/decisions, bench.Micros(after.redis-before.redis)/decisions
	return figures{
		rate: s.PerSecond(), us: service + store, redis: store,
		p50: bench.Micros(s.Latency.Quantile(0.5)), p99: bench.Micros(s.Latency.Quantile(0.99)),
	}, nil
}
