package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
)

// fake counts what it is asked for, by its own decoding of Envoy's protocol.
type fake struct {
	rls.UnimplementedRateLimitServiceServer
	limit  uint32 // of each key; 0 for plenty
	answer func(*rls.RateLimitResponse) error
	mu     sync.Mutex
	hits   map[string]uint32
}

func (f *fake) ShouldRateLimit(_ context.Context, q *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := &rls.RateLimitResponse{OverallCode: rls.RateLimitResponse_OK}
	for _, d := range q.Descriptors {
		a.Statuses = append(a.Statuses, f.hit(q.Domain, d))
		if a.Statuses[len(a.Statuses)-1].Code != rls.RateLimitResponse_OK {
			a.OverallCode = rls.RateLimitResponse_OVER_LIMIT
		}
	}
	if f.answer != nil {
		return a, f.answer(a)
	}
	return a, nil
}

func (f *fake) hit(domain string, d *common.RateLimitDescriptor) *rls.RateLimitResponse_DescriptorStatus {
	key := fmt.Sprint(domain, d.Entries)
	f.hits[key]++
	limit := f.limit
	if limit == 0 {
		limit = plenty
	}
	s := &rls.RateLimitResponse_DescriptorStatus{
		Code:         rls.RateLimitResponse_OK,
		CurrentLimit: &rls.RateLimitResponse_RateLimit{RequestsPerUnit: limit, Unit: rls.RateLimitResponse_RateLimit_HOUR},
	}
	if n := f.hits[key]; n > limit {
		s.Code = rls.RateLimitResponse_OVER_LIMIT
	} else {
		s.LimitRemaining = limit - n
	}
	return s
}

// total is how often the keys of a domain were hit.
func (f *fake) total() (n uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, hits := range f.hits {
		n += hits
	}
	return n
}

// serve serves until the test ends.
func (f *fake) serve(t *testing.T) (addr string) {
	t.Helper()
	f.hits = map[string]uint32{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	rls.RegisterRateLimitServiceServer(s, f)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// target is the fake, as if it were the process of a subject.
func (f *fake) target(t *testing.T, s subject, addr string) *target {
	t.Helper()
	to, err := newTarget(t, s, addr)
	if err != nil {
		t.Fatal(err)
	}
	to.pid = os.Getpid()
	if err := to.ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return to
}
