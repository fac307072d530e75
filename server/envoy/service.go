package envoy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/config"
)

// maxDescriptors bounds a request.
const maxDescriptors = coord.MaxDemands

// Options are what a Service has besides its configuration.
type Options struct {
	// Meter is told of the figures of the rules; nil is nobody.
	Meter metric.MeterProvider
	// May refuses a caller, who is in ctx, the keys with a prefix: those of a domain; nil lets everybody in. An error
	// without a code of gRPC is PermissionDenied.
	May func(ctx context.Context, prefix string) error
}

// Service is envoy.service.ratelimit.v3.RateLimitService on the store of a client. Make it with [New]. Register it with
// pb.RegisterRateLimitServiceServer, or serve it by [Service.ServeHTTP]. It is safe for concurrent use.
type Service struct {
	pb.UnimplementedRateLimitServiceServer

	client   *config.Client
	cfg      config.Envoy
	failOpen bool // of rules that say nothing of it
	options  Options
	tally    *tally
	stats    *stats
	rules    atomic.Pointer[Rules]
	sum      sum // of the files that are in force
	leased   map[coord.Limit]coord.PermitLease
}

// New makes a Service of the section serve.envoy of the client's configuration. It reads the files that the section
// names; a mistake in one is a [config.Error]. [Service.Watch] reads them again.
func New(client *config.Client, o Options) (*Service, error) {
	cfg := client.Config()
	s := &Service{
		client: client, cfg: cfg.Serve.Envoy, failOpen: cfg.FailurePolicy == coord.FailOpen, options: o,
		tally: newTally(client),
	}
	var err error
	if s.stats, err = newStats(o.Meter); err != nil {
		return nil, err
	}
	content, err := readFiles(s.cfg.Files)
	if err != nil {
		return nil, err
	}
	err = s.take(content)
	if s.stats.load(err); err != nil {
		return nil, err
	}
	return s, nil
}

// Check finds what [New] would find wrong with the files that the section serve.envoy names: at most one mistake of each
// file. It opens no store. absent are those of the section that are not on this machine.
func Check(cfg *config.Config) (mistakes []error, absent []string) {
	var content []File
	for _, path := range cfg.Serve.Envoy.Files {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			absent = append(absent, path)
			continue
		}
		files, err := readFiles([]string{path})
		if err != nil {
			mistakes = append(mistakes, err)
		}
		content = append(content, files...)
	}
	rules := newRules()
	for _, f := range content {
		if err := rules.add(f, cfg.Serve.Envoy.MergeDomains); err != nil {
			mistakes = append(mistakes, err)
		}
	}
	if len(mistakes) == 0 {
		if _, err := countable(cfg, rules); err != nil {
			mistakes = append(mistakes, err)
		}
	}
	return mistakes, absent
}

// countable gives the limits of which permits are taken in advance, if a client of cfg can count by the rules.
func countable(cfg *config.Config, rules *Rules) (map[coord.Limit]coord.PermitLease, error) {
	for _, name := range rules.Domains() {
		if !rules.domains[name].exact && cfg.Overrides {
			return nil, fmt.Errorf("%w: domain %q: overrides: true goes with counting: exact alone", coord.ErrInvalid, name)
		}
	}
	return rules.leases(cfg.Limits, cfg.Leases)
}

// take makes the rules of files those in force, or refuses them.
func (s *Service) take(content []File) error {
	rules, err := Parse(s.cfg.MergeDomains, content...)
	if err == nil {
		err = s.serve(rules)
	}
	if err == nil {
		s.sum = sumOf(content)
	}
	return err
}

// serve makes rules those in force.
func (s *Service) serve(rules *Rules) error {
	leases, err := countable(s.client.Config(), rules)
	if err != nil {
		return err
	}
	if err := s.lease(leases); err != nil {
		return err
	}
	s.rules.Store(rules)
	return nil
}

// Rules are those in force.
func (s *Service) Rules() *Rules { return s.rules.Load() }

// ShouldRateLimit answers a request of Envoy. A mistake in it is InvalidArgument. Where the store does not decide it is
// Unavailable, and Envoy does what its failure_mode_deny says.
func (s *Service) ShouldRateLimit(ctx context.Context, request *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	answer, err := s.decideFor(ctx, request)
	if err == nil {
		return answer, nil
	}
	code, kind := codeOf(err)
	s.stats.fail(kind)
	if _, ok := ownStatus(err); !ok {
		err = status.Error(code, err.Error())
	}
	return nil, err
}

// decideFor is decide for a caller who may take permits of that domain.
func (s *Service) decideFor(ctx context.Context, request *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	if s.options.May != nil {
		if err := s.options.May(ctx, domainPrefix(request.GetDomain())); err != nil {
			if _, ok := ownStatus(err); !ok {
				err = status.Error(codes.PermissionDenied, err.Error())
			}
			return nil, err
		}
	}
	return s.decide(ctx, request)
}

// invalid is a mistake in a request.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{coord.ErrInvalid}, args...)...)
}

// ownStatus is the status that err is. One that a store has answered is only inside of an error, and is not meant.
func ownStatus(err error) (*status.Status, bool) {
	s, ok := err.(interface{ GRPCStatus() *status.Status })
	if !ok {
		return nil, false
	}
	return s.GRPCStatus(), true
}

// codeOf is the code of an error, and its name in statistics.
func codeOf(err error) (code codes.Code, kind string) {
	own, ok := ownStatus(err)
	switch {
	case ok:
		return own.Code(), "service_error"
	case errors.Is(err, coord.ErrInvalid):
		return codes.InvalidArgument, "service_error"
	case errors.Is(err, coord.ErrUnsupported):
		return codes.Unimplemented, "service_error"
	case errors.Is(err, context.Canceled):
		return codes.Canceled, "service_error"
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded, "store_error"
	}
	return codes.Unavailable, "store_error"
}
