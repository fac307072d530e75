package envoy

import (
	"context"
	"errors"
	"math"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/coordgo/coord"
)

// part is one descriptor of a request, and what was decided on it.
type part struct {
	found
	key  string
	hits uint64

	unlimited bool // it matched a rule without a bound
	over      bool // also where the rule is in shadow mode
	remaining uint32
	reset     time.Duration
	taken     uint64 // by counting: exact, which can give it back
}

// decision is one request on its way.
type decision struct {
	service *Service
	domain  *domain // nil: there are no rules of it
	request *pb.RateLimitRequest
	parts   []part
	away    bool // the store did not decide on a part, which its rule lets in
}

// decide answers a request.
func (s *Service) decide(ctx context.Context, request *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	switch {
	case request.GetDomain() == "":
		return nil, invalid("no domain: want that of the configuration")
	case len(request.Descriptors) == 0:
		return nil, invalid("no descriptors: want at least one")
	case len(request.Descriptors) > maxDescriptors:
		return nil, invalid("%d descriptors: want at most %d", len(request.Descriptors), maxDescriptors)
	}
	d := decision{service: s, domain: s.rules.Load().domains[request.Domain], request: request}
	if d.domain == nil {
		s.stats.unknownDomain(len(request.Descriptors))
	}
	if err := d.find(); err != nil {
		return nil, err
	}
	for i := range d.parts {
		s.stats.hits(&d.parts[i])
	}
	count := d.countEach
	if d.domain != nil && d.domain.exact {
		count = d.takeAll
	}
	if err := count(ctx); err != nil {
		return nil, err
	}
	if d.away {
		s.stats.fail("store_error")
	}
	answer := d.answer()
	d.trace(ctx, answer)
	return answer, nil
}

// trace says in the span of the request, if there is one, what was decided. It tells no value of a descriptor.
func (d *decision) trace(ctx context.Context, answer *pb.RateLimitResponse) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	over := 0
	for _, status := range answer.Statuses {
		if status.Code == pb.RateLimitResponse_OVER_LIMIT {
			over++
		}
	}
	if d.domain != nil { // else it is any text
		span.SetAttributes(attribute.String("ratelimit.domain", d.domain.name))
	}
	span.SetAttributes(attribute.String("ratelimit.code", answer.OverallCode.String()),
		attribute.Int("ratelimit.descriptors", len(d.parts)), attribute.Int("ratelimit.over_limit", over))
}

// find gives each part its rule, without those that another one replaces.
func (d *decision) find() (err error) {
	d.parts = make([]part, len(d.request.Descriptors))
	prefix := domainPrefix(d.request.Domain)
	var replaced map[string]bool
	for i, rd := range d.request.Descriptors {
		p := &d.parts[i]
		p.hits = hits(d.request, i)
		if d.domain == nil {
			continue
		}
		if p.found, err = d.domain.match(rd, &d.service.stats.asked); err != nil {
			return err
		}
		if p.rule == nil {
			continue
		}
		for _, name := range p.replaces {
			if replaced == nil {
				replaced = make(map[string]bool)
			}
			replaced[name] = true
		}
		if p.rule.unlimited {
			p.unlimited, p.rule = true, nil
			continue
		}
		p.key = counterKey(prefix, rd.GetEntries(), p.shared)
	}
	for i := range d.parts {
		if p := &d.parts[i]; p.rule != nil && p.current.Name != "" && replaced[p.current.Name] {
			p.rule = nil
		}
	}
	return nil
}

// hits is how much a descriptor adds. 0 of the request means 1; 0 of the descriptor looks and adds nothing.
func hits(request *pb.RateLimitRequest, i int) uint64 {
	if own := request.Descriptors[i].GetHitsAddend(); own != nil {
		return own.Value
	}
	return max(uint64(request.HitsAddend), 1)
}

// countEach decides on each part by itself, as envoyproxy/ratelimit does.
func (d *decision) countEach(ctx context.Context) error {
	additions := make([]*addition, len(d.parts))
	t, own := d.service.tally, account{} // a call that is made here
	for i := range d.parts {
		p := &d.parts[i]
		if p.rule == nil {
			continue
		}
		var first bool
		to := account{p.key, p.per}
		if additions[i], first = t.add(ctx, to, p.hits); !first {
			continue
		}
		if own != (account{}) {
			go t.run(own)
		}
		own = to
	}
	if own != (account{}) {
		t.lead(own)
	}
	for i, a := range additions {
		if a == nil {
			continue
		}
		p := &d.parts[i]
		if err := a.wait(ctx); err != nil {
			if err = d.undecided(p, err); err != nil {
				return err
			}
			continue
		}
		before, limit := uint64(a.after)-min(p.hits, maxHits), uint64(p.current.RequestsPerUnit)
		after := before + min(p.hits, math.MaxUint64-before)
		if p.over = after > limit; !p.over {
			p.remaining = uint32(limit - after)
		}
		p.reset = a.reset
		d.service.stats.counted(p, limit, before, after)
	}
	return nil
}

// undecided is what becomes of a part on which the store did not decide: an error, unless its rule lets in.
func (d *decision) undecided(p *part, err error) error {
	open := d.service.failOpen
	if p.policy != "" {
		open = p.policy == "open"
	}
	if !open || !errors.Is(err, coord.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	p.remaining, d.away = p.current.RequestsPerUnit, true
	return nil
}

// answer is what Envoy is told.
func (d *decision) answer() *pb.RateLimitResponse {
	s := d.service
	r := &pb.RateLimitResponse{Statuses: make([]*pb.RateLimitResponse_DescriptorStatus, len(d.parts))}
	now := time.Now()
	var nearest *pb.RateLimitResponse_DescriptorStatus // the part that is nearest to its limit, or over it
	least := uint32(math.MaxUint32)
	failed, quotas, failedQuotas := 0, 0, 0
	for i := range d.parts {
		p := &d.parts[i]
		status := p.status(now)
		r.Statuses[i] = status
		if status.CurrentLimit != nil && status.LimitRemaining < least {
			nearest, least = status, status.LimitRemaining
		}
		if p.unlimited {
			continue
		}
		quota := s.cfg.Quota || p.rule != nil && p.quota
		over := status.Code == pb.RateLimitResponse_OVER_LIMIT
		switch {
		case over && quota:
			failedQuotas++
		case over:
			failed++
			nearest, least = status, 0
		}
		if quota {
			quotas++
		}
	}
	r.OverallCode = pb.RateLimitResponse_OK
	if failed > 0 || quotas > 0 && quotas == failedQuotas {
		r.OverallCode = pb.RateLimitResponse_OVER_LIMIT
	}
	if s.cfg.Headers && nearest != nil {
		r.ResponseHeadersToAdd = headers(nearest)
	}
	if r.OverallCode == pb.RateLimitResponse_OVER_LIMIT && s.cfg.Shadow {
		r.OverallCode = pb.RateLimitResponse_OK
		s.stats.shadowed()
	}
	if s.cfg.Metadata {
		r.DynamicMetadata = d.metadata(r.Statuses)
	}
	return r
}

// status is what Envoy is told of a part.
func (p *part) status(now time.Time) *pb.RateLimitResponse_DescriptorStatus {
	status := &pb.RateLimitResponse_DescriptorStatus{Code: pb.RateLimitResponse_OK}
	switch {
	case p.unlimited:
		status.LimitRemaining = math.MaxUint32
		return status
	case p.rule == nil:
		return status
	case p.over && !p.shadow:
		status.Code = pb.RateLimitResponse_OVER_LIMIT
	}
	reset := p.reset
	if reset == 0 && p.algorithm == coord.FixedWindow { // nothing is counted yet
		reset = untilNext(now, p.per)
	}
	status.CurrentLimit, status.LimitRemaining, status.DurationUntilReset = p.current, p.remaining, inSeconds(reset)
	return status
}
